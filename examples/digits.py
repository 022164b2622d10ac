"""Trains a digit classifier on five processes: one parameter server and four trainers.

Every trainer has a quarter of the images. It asks the server for the weights, computes gradients
on a few images, and sends them back; the server applies them in the order in which they arrive.
The images come with scikit-learn, so nothing is downloaded.
"""

import argparse
import operator
import sys
import time

import torch
from monarch.actor import Accumulator, Actor, current_rank, endpoint, this_host
from sklearn.datasets import load_digits

TRAINERS = 4
BATCH = 32
HELD_OUT = 360  # images that no trainer trains on
ENOUGH = 0.95

Tensors = list[torch.Tensor]


def make_network() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


def load_images() -> tuple[torch.Tensor, torch.Tensor]:
    """Return images and their digits, in an order that every process agrees on."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    return images[order], torch.tensor(digits.target)[order]


class ParameterServer(Actor):
    """Holds the weights."""

    def __init__(self, learning_rate: float) -> None:
        torch.set_num_threads(1)  # five processes share the machine
        self.network = make_network()
        self.optimizer = torch.optim.SGD(self.network.parameters(), learning_rate)

    @endpoint
    def weights(self) -> Tensors:
        return [parameter.detach() for parameter in self.network.parameters()]

    @endpoint
    def apply(self, gradients: Tensors) -> None:
        for parameter, gradient in zip(self.network.parameters(), gradients):
            parameter.grad = gradient
        self.optimizer.step()


class Trainer(Actor):
    """Computes gradients on its part of the images."""

    def __init__(self, server: ParameterServer) -> None:
        torch.set_num_threads(1)
        self.server = server  # a reference: calling its endpoints sends messages
        self.network = make_network()
        self.images, self.digits = load_images()

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
        """Go through this trainer's images once; return the mean loss and the number of messages."""
        mine = slice(HELD_OUT + current_rank().rank, None, TRAINERS)
        images, digits = self.images[mine], self.digits[mine]
        losses = []
        for batch in torch.randperm(len(images)).split(BATCH):
            self.fetch_weights()
            loss = torch.nn.functional.cross_entropy(self.network(images[batch]), digits[batch])
            gradients = torch.autograd.grad(loss, list(self.network.parameters()))
            # One way: nobody waits. What this trainer sends next arrives after it.
            self.server.apply.broadcast(list(gradients))
            losses.append(loss.item())
        return sum(losses) / len(losses), 3 * len(losses)

    @endpoint
    def count_correct(self) -> int:
        """Return how many images of this trainer's part of the held-out ones are read correctly."""
        part = slice(current_rank().rank, HELD_OUT, TRAINERS)
        self.fetch_weights()
        guesses = self.network(self.images[part]).argmax(dim=1)
        return int((guesses == self.digits[part]).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=40)
    epochs = parser.parse_args().epochs

    processes = this_host().spawn_procs(per_host={"procs": 1 + TRAINERS})
    server = processes.slice(procs=0).spawn("server", ParameterServer, learning_rate=0.1)
    trainers = processes.slice(procs=slice(1, None)).spawn("trainers", Trainer, server)

    counts = trainers.count_images.call().get()  # one result for each trainer
    print(f"{TRAINERS} trainers with {', '.join(map(str, counts.values()))} images", flush=True)

    messages, began = 0, time.perf_counter()
    for epoch in range(1, epochs + 1):
        results = trainers.train.call().get()
        messages += sum(count for _, count in results.values())
        if epoch % 5 == 0:
            print(f"epoch {epoch:2}  loss {sum(loss for loss, _ in results.values()) / TRAINERS:.4f}", flush=True)
    seconds = time.perf_counter() - began

    correct = Accumulator(trainers.count_correct, 0, operator.add).accumulate().get()
    accuracy = correct / HELD_OUT
    print(f"accuracy on {HELD_OUT} held-out images: {accuracy:.4f}")
    print(f"messages a second: {messages / seconds:,.0f}")
    processes.stop().get()
    if accuracy <= ENOUGH:
        sys.exit(f"the accuracy has to be above {ENOUGH}; more --epochs may help")


if __name__ == "__main__":
    main()
