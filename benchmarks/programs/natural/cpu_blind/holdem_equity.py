"""Monte Carlo equity of Texas hold'em starting hands against one to three random opponents."""

import torch

torch.set_num_threads(2)

RANKS = "23456789TJQKA"
SUITS = "cdhs"


def card(text):
    return RANKS.index(text[0]) * 4 + SUITS.index(text[1])


def straight_top(present):
    """Highest rank that ends a run of five, minus one where there is none; present is (..., 13) bool."""
    wheel = torch.cat([present[..., 12:], present], dim=-1)
    runs = wheel.unfold(-1, 5, 1).all(-1)
    height = torch.arange(3, 13)
    return torch.where(runs, height, torch.full_like(height, -1)).amax(-1)


def top_k_code(present, k):
    ranks = torch.where(present, torch.arange(13), torch.full((13,), -1))
    best = ranks.sort(dim=-1, descending=True).values[..., :k] + 1
    weights = 14 ** torch.arange(k - 1, -1, -1)
    return (best * weights).sum(-1)


def evaluate(cards):
    """Integer strength of the best five of seven cards, comparable across hands; cards is (..., 7)."""
    rank, suit = cards // 4, cards % 4
    table = (rank.unsqueeze(-1) == torch.arange(13)).unsqueeze(-2)
    suited = (suit.unsqueeze(-1) == torch.arange(4)).unsqueeze(-1)
    grid = (table & suited).any(dim=-3)
    count = grid.sum(dim=-2)
    per_suit = grid.sum(dim=-1)

    flush_suit = per_suit.argmax(-1)
    is_flush = per_suit.amax(-1) >= 5
    flush_cards = grid.gather(-2, flush_suit[..., None, None].expand(*flush_suit.shape, 1, 13)).squeeze(-2)
    sf = torch.where(is_flush, straight_top(flush_cards), -1)
    st = straight_top(count > 0)

    index = torch.arange(13)
    quad = torch.where(count == 4, index, -1).amax(-1)
    trip = torch.where(count == 3, index, -1).amax(-1)
    not_trip = index != trip.unsqueeze(-1)
    pair = torch.where((count >= 2) & not_trip, index, -1).amax(-1)
    second = torch.where((count == 2) & (index != pair.unsqueeze(-1)), index, -1).amax(-1)

    def kickers(exclude_a, exclude_b, k):
        keep = (count > 0) & (index != exclude_a.unsqueeze(-1)) & (index != exclude_b.unsqueeze(-1))
        return top_k_code(keep, k)

    base = 14**5
    none = torch.full_like(quad, -5)
    score = top_k_code(count > 0, 5)
    score = torch.where(pair >= 0, 1 * base + (pair + 1) * 14**3 + kickers(pair, none, 3), score)
    two = 2 * base + (pair + 1) * 14**2 + (second + 1) * 14 + kickers(pair, second, 1)
    score = torch.where((pair >= 0) & (second >= 0), two, score)
    score = torch.where(trip >= 0, 3 * base + (trip + 1) * 14**2 + kickers(trip, none, 2), score)
    score = torch.where(st >= 0, 4 * base + st, score)
    score = torch.where(is_flush, 5 * base + top_k_code(flush_cards, 5), score)
    score = torch.where((trip >= 0) & (pair >= 0), 6 * base + (trip + 1) * 14 + pair, score)
    score = torch.where(quad >= 0, 7 * base + (quad + 1) * 14 + kickers(quad, none, 1), score)
    return torch.where(sf >= 0, 8 * base + sf, score)


@torch.compile
def deal_and_score(hole, opponents: int, trials: int):
    keys = torch.rand(trials, 52)
    keys[:, hole] = -1.0
    deck = keys.topk(5 + 2 * opponents, dim=1).indices
    board = deck[:, :5]
    mine = torch.cat([hole.expand(trials, 2), board], dim=1)
    others = deck[:, 5:].reshape(trials, opponents, 2)
    theirs = torch.cat([others, board.unsqueeze(1).expand(-1, opponents, -1)], dim=2)
    hero = evaluate(mine)
    villains = evaluate(theirs)
    best = villains.amax(1)
    ties = (villains == hero.unsqueeze(1)).sum(1)
    share = torch.where(hero > best, 1.0, torch.where(hero == best, 1.0 / (1 + ties), 0.0))
    return share.sum(), share.square().sum()


def equity(hand, opponents, rounds=9, trials=4000):
    hole = torch.tensor([card(hand[:2]), card(hand[2:])])
    total = squares = 0.0
    for _ in range(rounds):
        s, q = deal_and_score(hole, opponents, trials)
        total += s.item()
        squares += q.item()
    n = rounds * trials
    mean = total / n
    return mean, ((squares / n - mean**2) / n) ** 0.5


def main():
    torch.manual_seed(21)
    hands = ["AsAh", "KdKc", "AsKs", "JhTh", "8c8d", "7h2c"]
    for opponents in (1, 2, 3):
        row = []
        for hand in hands:
            mean, err = equity(hand, opponents)
            row.append(f"{hand} {100 * mean:.1f}±{100 * err:.1f}")
        print(f"{opponents} opponent(s): " + "  ".join(row))


if __name__ == "__main__":
    main()
