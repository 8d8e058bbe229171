"""Trains the policies of mpquic's neural schedulers in the project's simulator, and exports them; runs no network."""

import torch

# The networks are so small that a second thread costs more than it does, and sums in another order would change
# results from machine to machine.
torch.set_num_threads(1)
