"""On-policy Monte Carlo control for blackjack (infinite deck, hit / stand / double), thousands of tables at once."""

import torch

torch.manual_seed(17)

TABLES = 8192
EPISODES = 220
HIT, STAND, DOUBLE = 0, 1, 2
N_STATES = 22 * 2 * 11 * 2  # total, usable ace, dealer card, may double


def draw(n):
    """Card values 1..10, the tens four times as likely."""
    return torch.randint(1, 14, (n,)).clamp(max=10)


def state_index(total, ace, dealer, first):
    return ((total.clamp(max=21) * 2 + ace.long()) * 11 + dealer) * 2 + first.long()


def add_card(hard, has_ace, card):
    hard = hard + card
    has_ace = has_ace | (card == 1)
    usable = has_ace & (hard + 10 <= 21)
    return hard, has_ace, usable, hard + 10 * usable.long()


def choose(q, state, first, eps):
    values = q[state]
    values = values.masked_fill(~first[:, None] & (torch.arange(3) == DOUBLE), -1e9)
    greedy = values.argmax(1)
    rand = torch.where(first, torch.randint(0, 3, greedy.shape), torch.randint(0, 2, greedy.shape))
    return torch.where(torch.rand(greedy.shape) < eps, rand, greedy)


@torch.compile
def play_round(q, eps):
    """Play one hand at every table; returns visited states, actions, a mask of valid steps and the payoffs."""
    n = TABLES
    dealer_up = draw(n)
    zero = torch.zeros(n, dtype=torch.long)
    no = torch.zeros(n, dtype=torch.bool)
    hard, has_ace, usable, total = add_card(zero, no, draw(n))
    hard, has_ace, usable, total = add_card(hard, has_ace, draw(n))

    stake = torch.ones(n)
    alive = total < 21
    first = torch.ones(n, dtype=torch.bool)
    states, actions, masks = [], [], []
    while alive.any():
        s = state_index(total, usable, dealer_up, first)
        a = choose(q, s, first, eps)
        states.append(s)
        actions.append(a)
        masks.append(alive)

        takes = alive & (a != STAND)
        stake = torch.where(alive & (a == DOUBLE), 2.0, stake)
        h2, ace2, us2, t2 = add_card(hard, has_ace, draw(n))
        hard = torch.where(takes, h2, hard)
        has_ace = torch.where(takes, ace2, has_ace)
        usable = torch.where(takes, us2, usable)
        total = torch.where(takes, t2, total)
        alive = alive & (a == HIT) & (total < 21)
        first = torch.zeros_like(first)

    # the dealer draws to 17
    d_hard, d_ace, _, d_total = add_card(zero, no, dealer_up)
    drawing = torch.ones(n, dtype=torch.bool)
    while drawing.any():
        h2, ace2, _, t2 = add_card(d_hard, d_ace, draw(n))
        d_hard = torch.where(drawing, h2, d_hard)
        d_ace = torch.where(drawing, ace2, d_ace)
        d_total = torch.where(drawing, t2, d_total)
        drawing = drawing & (d_total < 17)

    bust = total > 21
    win = ~bust & ((d_total > 21) | (total > d_total))
    push = ~bust & (total == d_total)
    pay = stake * (win.float() - (~win & ~push).float())
    return torch.stack(states), torch.stack(actions), torch.stack(masks), pay


def update(q_sum, q_cnt, states, actions, masks, pay):
    flat = (states * 3 + actions)[masks]
    g = pay.expand(states.shape)[masks]
    q_sum.view(-1).index_add_(0, flat, g)
    q_cnt.view(-1).index_add_(0, flat, torch.ones_like(g))
    return torch.where(q_cnt > 0, q_sum / q_cnt.clamp(min=1), 0.0)


def main():
    q_sum = torch.zeros(N_STATES, 3)
    q_cnt = torch.zeros(N_STATES, 3)
    q = torch.zeros(N_STATES, 3)
    recent = []
    for ep in range(EPISODES):
        eps = 0.3 if ep < EPISODES // 2 else 0.05
        states, actions, masks, pay = play_round(q, eps)
        q = update(q_sum, q_cnt, states, actions, masks, pay)
        q_sum *= 0.995
        q_cnt *= 0.995
        recent.append(pay.mean().item())
        if (ep + 1) % 55 == 0:
            print(
                f"round {ep + 1}: eps {eps}, mean payoff {sum(recent[-40:]) / 40:+.4f}, deepest hand {len(states)}"
            )
    # learned play for hard totals against a six
    for tot in (9, 11, 13, 16, 18):
        idx = state_index(*(torch.tensor([v]) for v in (tot, 0, 6, 1)))
        print(f"hard {tot} vs 6: {('hit', 'stand', 'double')[int(q[idx].argmax())]}")


if __name__ == "__main__":
    main()
