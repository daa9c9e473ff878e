"""What counts as the next round of a loop, and for how long."""

from __future__ import annotations

from cloudretry.core.outer_loops import OuterLoops


def test_a_call_that_was_given_up_is_known_for_two_minutes_after_its_last_round() -> None:
    loops = OuterLoops()
    assert not loops
    loops.gave_up("a", 10.0)
    assert loops.rounds("a", 130.0) == 1
    loops.gave_up("a", 130.0)
    assert loops.rounds("a", 250.0) == 2
    assert loops.rounds("a", 250.1) == 0
    assert not loops


def test_one_that_was_not_tried_to_the_end_is_known_but_is_no_round() -> None:
    loops = OuterLoops()
    loops.gave_up("a", 10.0, tried=False)
    assert ("a" in loops, loops.rounds("a", 20.0)) == (True, 0)
    loops.gave_up("a", 20.0)
    loops.gave_up("a", 30.0, tried=False)
    assert ("a" in loops, loops.rounds("a", 40.0)) == (True, 1)
    assert loops.rounds("a", 200.0) == 0
    assert "a" not in loops


def test_others_are_not_confused_with_it() -> None:
    loops = OuterLoops()
    loops.gave_up("a", 10.0)
    assert loops.rounds("b", 10.0) == 0
    assert loops


def test_an_answer_ends_the_loop() -> None:
    loops = OuterLoops()
    loops.gave_up("a", 10.0)
    loops.answered("a")
    loops.answered("never seen")
    assert loops.rounds("a", 10.0) == 0


def test_only_the_latest_ten_thousand_are_kept() -> None:
    loops = OuterLoops()
    for number in range(10_001):
        loops.gave_up(number, float(number) / 1000)
    assert [loops.rounds(number, 11.0) for number in (0, 1, 10_000)] == [0, 1, 1]


def test_one_that_comes_again_is_the_latest() -> None:
    loops = OuterLoops()
    for number in range(10_000):
        loops.gave_up(number, 1.0)
    loops.gave_up(0, 2.0)
    loops.gave_up(10_000, 3.0)
    assert [loops.rounds(number, 3.0) for number in (0, 1, 10_000)] == [2, 0, 1]
