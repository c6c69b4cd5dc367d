"""Zero-intelligence limit order flow (Cont, Stoikov and Talreja, 2010).

Many independent order books on a fixed tick grid evolve event by event: limit
orders arrive at a power-law rate in the distance to the opposite quote, resting
orders are cancelled at a rate proportional to the queue, and market orders eat
the best queue.  We estimate the spread distribution, the signature plot of the mid
price, and the probability of an up move given the queue imbalance.
"""

import torch

torch.manual_seed(5)

BOOKS = 768
LEVELS = 120
EVENTS_PER_CALL = 4
MU = 0.94
LIMIT_K, LIMIT_ALPHA = 1.92, 0.52
THETA = 0.42
MAX_DIST = 20


class OrderBooks:
    def __init__(self, books, levels):
        self.levels = levels
        self.ticks = torch.arange(levels)
        self.bids = torch.zeros(books, levels)
        self.asks = torch.zeros(books, levels)
        mid = levels // 2
        depth = torch.poisson(torch.full((books, levels), 4.0))
        self.bids[:, mid - 15 : mid] = depth[:, mid - 15 : mid] + 1
        self.asks[:, mid + 1 : mid + 16] = depth[:, mid + 1 : mid + 16] + 1
        self.clock = torch.zeros(books, dtype=torch.float64)
        self.traded = torch.zeros(books)

    def best(self):
        has_bid = self.bids > 0
        has_ask = self.asks > 0
        bb = torch.where(has_bid, self.ticks, -1).amax(1)
        ba = torch.where(has_ask, self.ticks, self.levels).amin(1)
        return bb, ba

    def rates(self, bb, ba):
        to_ask = ba[:, None] - self.ticks
        to_bid = self.ticks - bb[:, None]
        buy = torch.where(
            (to_ask >= 1) & (to_ask <= MAX_DIST), LIMIT_K * to_ask.clamp(min=1).float() ** -LIMIT_ALPHA, 0.0
        )
        sell = torch.where(
            (to_bid >= 1) & (to_bid <= MAX_DIST), LIMIT_K * to_bid.clamp(min=1).float() ** -LIMIT_ALPHA, 0.0
        )
        market_buy = MU * (ba < self.levels).float()
        market_sell = MU * (bb >= 0).float()
        return torch.cat(
            [buy, sell, THETA * self.bids, THETA * self.asks, market_buy[:, None], market_sell[:, None]], 1
        )

    def one_event(self):
        L = self.levels
        bb, ba = self.best()
        rate = self.rates(bb, ba)
        total = rate.sum(1)
        self.clock += torch.empty_like(total).exponential_() / total
        pick = torch.multinomial(rate, 1).squeeze(1)
        kind = torch.div(pick, L, rounding_mode="floor")
        level = pick % L
        m_buy = pick == 4 * L
        m_sell = pick == 4 * L + 1
        kind = torch.where(m_buy | m_sell, 4, kind)

        d_bid = (kind == 0).float() - (kind == 2).float()
        d_ask = (kind == 1).float() - (kind == 3).float()
        self.bids.scatter_add_(1, level[:, None], d_bid[:, None])
        self.asks.scatter_add_(1, level[:, None], d_ask[:, None])
        self.asks.scatter_add_(1, ba.clamp(max=L - 1)[:, None], -m_buy.float()[:, None])
        self.bids.scatter_add_(1, bb.clamp(min=0)[:, None], -m_sell.float()[:, None])
        self.bids.clamp_(min=0)
        self.asks.clamp_(min=0)
        self.traded += (m_buy | m_sell).float()

    def recentre(self, bb, ba):
        """Shift the window of a book whose quotes have drifted near an edge."""
        mid = (bb + ba) // 2
        drift = mid - self.levels // 2
        far = drift.abs() > self.levels // 4
        for b in torch.nonzero(far).flatten().tolist():
            s = int(drift[b])
            self.bids[b] = torch.roll(self.bids[b], -s)
            self.asks[b] = torch.roll(self.asks[b], -s)
        return torch.where(far, drift, 0)


def main():
    market = OrderBooks(BOOKS, LEVELS)

    @torch.compile
    def advance():
        for _ in range(EVENTS_PER_CALL):
            market.one_event()
        bb, ba = market.best()
        qb = market.bids.gather(1, bb.clamp(min=0)[:, None]).squeeze(1)
        qa = market.asks.gather(1, ba.clamp(max=LEVELS - 1)[:, None]).squeeze(1)
        return bb, ba, (qb - qa) / (qb + qa)

    offset = torch.zeros(BOOKS)
    mids, spreads, imbalances = [], [], []
    for _ in range(500):
        bb, ba, imb = advance()
        mids.append(offset + 0.5 * (bb + ba))
        spreads.append(ba - bb)
        imbalances.append(imb)
        offset += market.recentre(bb, ba)

    mids = torch.stack(mids)[100:]
    spreads = torch.stack(spreads)[100:]
    imbalances = torch.stack(imbalances)[100:]
    for s in range(1, 6):
        print(f"P(spread = {s} ticks) = {(spreads == s).float().mean():.4f}")
    for lag in (1, 4, 16, 64):
        d = mids[lag:] - mids[:-lag]
        print(
            f"lag {lag * EVENTS_PER_CALL:4d} events: mid variance per event {d.var() / lag / EVENTS_PER_CALL:.4f}"
        )
    move = mids[5:] - mids[:-5]
    start = imbalances[:-5]
    for lo, hi in ((-1, -0.5), (-0.5, 0), (0, 0.5), (0.5, 1)):
        sel = (start >= lo) & (start < hi) & (move != 0)
        print(f"imbalance [{lo:+.1f},{hi:+.1f}): P(up) {(move[sel] > 0).float().mean():.3f}")
    print(f"trades per book {market.traded.mean():.1f}, simulated time {market.clock.mean():.1f} s")


if __name__ == "__main__":
    main()
