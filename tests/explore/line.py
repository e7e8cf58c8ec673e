"""A simulator to explore, which can be made to fail."""

from tailwise import Simulator


class Line(Simulator):
    """Walk right for 1 a step, or leave at once for 2.5; a slip costs 5. It lists nothing."""

    horizon, discount, sense, start = 3, 1.0, "cost", 0
    is_broken = False

    def actions(self, state):
        return ["walk", "leave"]

    def step(self, state, action, rng):
        if self.is_broken:
            raise RuntimeError("the bridge is out")
        if action == "leave":
            return state, 2.5, True
        return state + 1, 1.0 + 5.0 * (rng.random() < 0.01), False
