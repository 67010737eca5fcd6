"""The one fold: live, resumed from any checkpoint, or folded from the root, the state is the same."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.state.simulate import NoBlobs, Simulation, Source

from rewake.resume.load import load, load_from_root

MANY = settings(
    max_examples=200,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.target),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@MANY
@given(st.data())
def test_resuming_any_prefix_gives_the_live_state(data: st.DataObject) -> None:
    simulation = Simulation(data)
    live = []
    for _ in range(data.draw(st.integers(1, 25))):
        simulation.run(1)
        live.append((len(simulation.events), simulation.state.as_json()))
    for count, expected in live:
        resumed = load(Source(simulation.events[:count]), NoBlobs())
        assert resumed.state.as_json() == expected
        assert resumed.damage == []


@MANY
@given(st.data())
def test_folding_from_the_root_gives_the_live_state(data: st.DataObject) -> None:
    simulation = Simulation(data)
    simulation.run(data.draw(st.integers(1, 40)))
    folded = load_from_root(Source(simulation.events), NoBlobs())
    assert folded.state.as_json() == simulation.state.as_json()


@MANY
@given(st.data())
def test_a_resumed_state_goes_on_like_the_live_one(data: st.DataObject) -> None:
    simulation = Simulation(data)
    simulation.run(data.draw(st.integers(1, 20)))
    resumed = load(Source(simulation.events), NoBlobs()).state
    before = len(simulation.events)
    for method in ("prompt", "assistant", "call_phase", "amendment", "tool_message", "transition"):
        getattr(simulation, method)()
    for event in simulation.events[before:]:
        resumed.apply(event)
    assert resumed.as_json() == simulation.state.as_json()
