"""An autoencoder trained with Lightning, the module compiled as its documentation says."""

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Auto(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Sequential(
            torch.nn.Linear(784, 512), torch.nn.GELU(), torch.nn.Linear(512, 32)
        )
        self.decoder = torch.nn.Sequential(
            torch.nn.Linear(32, 512), torch.nn.GELU(), torch.nn.Linear(512, 784)
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))

    def training_step(self, batch, index):
        (x,) = batch
        loss = torch.nn.functional.mse_loss(self(x), x)
        self.log("loss", loss, prog_bar=False)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


data = DataLoader(TensorDataset(torch.randn(8192, 784)), batch_size=256)
model = torch.compile(Auto())
trainer = L.Trainer(
    max_epochs=2,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, data)
