"""Answers the pricing summary report of TPC-H over columns held as tensors: filter by date, group, aggregate."""

import torch

torch.manual_seed(0)
ROWS = 400_000
table = {
    "quantity": torch.randint(1, 51, (ROWS,)).float(),
    "price": torch.rand(ROWS) * 1e5,
    "discount": torch.randint(0, 11, (ROWS,)) / 100.0,
    "tax": torch.randint(0, 9, (ROWS,)) / 100.0,
    "flag": torch.randint(0, 3, (ROWS,)),
    "status": torch.randint(0, 2, (ROWS,)),
    "shipdate": torch.randint(8035, 10561, (ROWS,)),
}


def pricing_summary(t, cutoff):
    keep = t["shipdate"] <= cutoff
    group = (t["flag"] * 2 + t["status"])[keep]
    quantity, price = t["quantity"][keep], t["price"][keep]
    discount, tax = t["discount"][keep], t["tax"][keep]
    net = price * (1 - discount)
    charge = net * (1 + tax)

    def total(column):
        return torch.zeros(6).index_add_(0, group, column)

    count = total(torch.ones_like(price))
    sums = torch.stack([total(quantity), total(price), total(net), total(charge), total(discount)])
    averages = sums / count.clamp(min=1)
    return sums, averages, count


query = torch.compile(pricing_summary)
revenue = 0.0
with torch.no_grad():
    for day in range(40):
        sums, averages, count = query(table, torch.tensor(10471 - day))
        revenue += sums[3].sum().item()
print("charged", revenue / 40, "rows", int(count.sum()))
