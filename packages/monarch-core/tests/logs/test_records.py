"""Records of `logging` in actors: they say whose they are, and are otherwise as they were."""

from __future__ import annotations

import logging

import pytest

from monarch.actor import Actor, endpoint


class Keeper(logging.Handler):
    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


class Logger(Actor):
    """Has a handler of its own, as user programs do."""

    def __init__(self):
        self.keeper = Keeper()
        self.logger.addHandler(self.keeper)
        self.logger.setLevel(logging.DEBUG)

    @endpoint
    def log(self, level, text, *args, **extra):
        self.logger.log(level, text, *args, extra=extra)
        record = self.keeper.records.pop()
        return {
            name: getattr(record, name, None)
            for name in ("msg", "args", "monarch_actor", "monarch_rank", *extra)
        }

    @endpoint
    def outside(self):
        """Return whose a record is that a thread of nobody makes."""
        import threading

        thread = threading.Thread(target=self.logger.warning, args=("x",))
        thread.start()
        thread.join()
        record = self.keeper.records.pop()
        return record.monarch_actor, record.monarch_rank

    def __cleanup__(self, error):
        self.logger.removeHandler(self.keeper)


class Warner(Actor):
    @endpoint
    def warn(self, text, *args):
        logging.getLogger("somewhere").warning(text, *args)

    @endpoint
    def configure(self):
        logging.basicConfig(format="mine: %(monarch_actor)s %(monarch_rank)d %(message)s")

    @endpoint
    def reset(self):
        root = logging.getLogger()
        for handler in root.handlers[:]:
            root.removeHandler(handler)


@pytest.fixture
def actor(procs):
    actor = procs.spawn("keeper", Logger).slice(gpus=1)
    yield actor
    actor.stop().get(20)


@pytest.mark.parametrize(
    ("level", "text", "args"),
    [
        pytest.param(logging.DEBUG, "", (), id="empty"),
        pytest.param(logging.INFO, "%d", (5,), id="number"),
        pytest.param(logging.INFO, "100 %", (), id="percent"),
        pytest.param(logging.INFO, "{} %s", ("x",), id="text"),
    ],
)
def test_other_handlers_get_the_record_unchanged_with_actor_and_rank(actor, level, text, args):
    found = actor.log.call_one(level, text, *args).get(20)
    assert found == {"msg": text, "args": args, "monarch_actor": "keeper", "monarch_rank": 1}


def test_extra_fields_of_the_user_stay(actor):
    found = actor.log.call_one(logging.INFO, "x", actor="mine", rank=7, name_of_mine=None).get(20)
    assert (found["actor"], found["rank"]) == ("mine", 7)


def test_a_record_of_nobody_says_so(actor):
    assert actor.outside.call_one().get(20) == ("", -1)


def test_without_set_up_a_warning_is_shown_with_level_and_logger(procs, seen):
    actor = procs.slice(gpus=0).spawn("warner", Warner)
    actor.warn.call_one("%s %d", "low", 5).get(20)
    seen("[warner 0] WARNING:somewhere:low 5\n", "stderr")
    actor.stop().get(20)


def test_the_users_own_set_up_is_the_one_that_counts(procs, seen):
    actor = procs.slice(gpus=0).spawn("warner", Warner)
    actor.configure.call_one().get(20)
    actor.warn.call_one("low").get(20)
    assert "WARNING" not in seen("[warner 0] mine: warner 0 low\n", "stderr")
    actor.reset.call_one().get(20)
    actor.stop().get(20)
