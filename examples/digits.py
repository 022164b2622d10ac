"""Trains a digit classifier on five processes: a parameter server and four trainers.

Every trainer has a quarter of the images. Again and again it asks the server for the weights,
computes gradients on a few images and sends them back; the server applies what arrives. Halfway
through, one trainer is killed on purpose: a new one takes its place, and the training goes on. The
images come with scikit-learn, so nothing is downloaded.
"""

import argparse
import operator
import os
import signal
import sys
import time

import torch

from monarch.actor import Accumulator, Actor, current_rank, endpoint, this_host
from monarch.errors import ProcessDied

TRAINERS = 4
BATCH = 64
HELD_OUT = 360  # images that nobody trains on
ENOUGH = 0.95


def make_network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


class ParameterServer(Actor):
    """Holds the weights."""

    def __init__(self, learning_rate: float) -> None:
        torch.set_num_threads(1)  # five processes share this machine
        self.network = make_network()
        self.optimizer = torch.optim.SGD(self.network.parameters(), learning_rate)

    @endpoint
    def weights(self) -> list[torch.Tensor]:
        return [parameter.detach() for parameter in self.network.parameters()]

    @endpoint
    def apply(self, gradients: list[torch.Tensor]) -> None:
        for parameter, gradient in zip(self.network.parameters(), gradients):
            parameter.grad = gradient
        self.optimizer.step()


class Trainer(Actor):
    """Computes gradients on its part of the images."""

    def __init__(self, server: ParameterServer, images: torch.Tensor, digits: torch.Tensor) -> None:
        torch.set_num_threads(1)
        self.server = server  # a reference: to call it is to send a message
        self.network = make_network()
        self.images, self.digits = images, digits

    def fetch_weights(self) -> None:
        weights = self.server.weights.call_one().get()
        with torch.no_grad():
            for parameter, weight in zip(self.network.parameters(), weights):
                parameter.copy_(weight)

    @endpoint
    def count_images(self) -> int:
        return len(self.digits[HELD_OUT + current_rank().rank :: TRAINERS])

    @endpoint
    def train(self) -> tuple[float, int]:
        """Go once through this trainer's images; return the mean loss and the number of messages."""
        mine = torch.arange(HELD_OUT + current_rank().rank, len(self.digits), TRAINERS)
        losses = []
        for batch in mine[torch.randperm(len(mine))].split(BATCH):
            self.fetch_weights()
            loss = torch.nn.functional.cross_entropy(self.network(self.images[batch]), self.digits[batch])
            gradients = torch.autograd.grad(loss, list(self.network.parameters()))
            # Nobody waits for this one; it is there before what this trainer sends next.
            self.server.apply.broadcast(list(gradients))
            losses.append(loss.item())
        return sum(losses) / len(losses), 3 * len(losses)

    @endpoint
    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    @endpoint
    def count_correct(self) -> int:
        """Return how many of this trainer's part of the held-out images are read correctly."""
        mine = slice(current_rank().rank, HELD_OUT, TRAINERS)
        self.fetch_weights()
        return int((self.network(self.images[mine]).argmax(dim=1) == self.digits[mine]).sum())


def train_once(trainers: Trainer) -> list[tuple[float, int]]:
    """Let all trainers go through their images; once more if one of them did not survive it."""
    while True:
        try:
            return list(trainers.train.call().get().values())
        except ProcessDied as error:
            if not error.restarting:
                raise


def load_images() -> tuple[torch.Tensor, torch.Tensor]:
    from sklearn.datasets import load_digits  # here, since only this process needs it

    data = load_digits()
    order = torch.randperm(len(data.target), generator=torch.Generator().manual_seed(0))
    return torch.tensor(data.data, dtype=torch.float32)[order] / 16, torch.tensor(data.target)[order]


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a digit classifier on five actors.")
    parser.add_argument("--epochs", type=int, default=80)
    epochs = parser.parse_args().epochs

    server = this_host().spawn_procs().spawn("server", ParameterServer, learning_rate=0.2)
    processes = this_host().spawn_procs(per_host={"procs": TRAINERS}, restart="rank")
    trainers = processes.spawn("trainers", Trainer, server, *load_images())

    counts = trainers.count_images.call().get().values()  # one result for each trainer
    print(f"{TRAINERS} trainers with {', '.join(map(str, counts))} images", flush=True)

    messages, began = 0, time.perf_counter()
    for epoch in range(1, epochs + 1):
        if epoch == epochs // 2:
            trainers.slice(procs=1).die.broadcast()
        losses, counts = zip(*train_once(trainers))
        messages += sum(counts)
        if epoch == 1 or epoch % 10 == 0:
            print(f"epoch {epoch:3}  loss {sum(losses) / TRAINERS:.4f}", flush=True)
    seconds = time.perf_counter() - began

    correct = Accumulator(trainers.count_correct, 0, operator.add).accumulate().get()
    accuracy = correct / HELD_OUT
    print(f"accuracy on {HELD_OUT} held-out images: {accuracy:.4f}")
    print(f"messages a second: {messages / seconds:,.0f}")
    if accuracy <= ENOUGH:
        sys.exit(f"the accuracy has to be above {ENOUGH}; try more --epochs")


if __name__ == "__main__":
    main()
