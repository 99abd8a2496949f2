"""Every case of the reference numbers, through the public functions.

The file lies beside the official data. A case is a record that counts which of its entries a check has read,
so that a switch that nobody looks at fails as loudly as a number that is wrong.
"""

import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from agentgym.algos import (
    dapo,
    gigpo,
    graphgpo,
    grpo,
    gspo,
    hgpo,
    istar,
    ppo,
    prime,
    process,
    reinforce_pp,
    rloo,
    spo3,
    steppo,
)
from agentgym.algos.advantage import EPS, gae, masked_whiten, step_returns
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import Compat
from agentgym.algos.filters import overlong_penalty, varied
from agentgym.algos.graph import distance, match_edges
from agentgym.algos.loss import TokenLayout, clipped_surrogate, kl_terms, policy_loss
from agentgym.algos.matching import group_sizes, match_states
from agentgym.algos.objective import Objective
from tests.algos.episodes import batch_of

pytestmark = pytest.mark.assets

torch.set_num_threads(1)

PROSE = {"name", "note", "dpo", "prm_reward"}
"""Entries that explain and set nothing."""


class Case(dict):
    """A record that remembers which of its entries were read."""

    def __init__(self, entries):
        super().__init__(entries)
        self.read = set()

    def __getitem__(self, key):
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key, default=None):
        self.read.add(key)
        return super().get(key, default)


@cache
def golden():
    """Return family -> its cases."""
    path = Path(os.environ["AGENTGYM_DATA"]).parent / "golden" / "advantages.json"
    if not path.is_file():
        pytest.fail(f"the reference numbers are missing: put them at {path}, beside AGENTGYM_DATA")
    families = {}
    for family, cases in json.loads(path.read_text()).items():
        if isinstance(cases, list):
            families[family] = cases
        elif family == "singleton_zero":
            families[family] = [cases]
        elif family != "_note":
            families |= {f"{family}.{part}": listed for part, listed in cases.items()}
    return families


def close(result, expected):
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-6)


def flat(rows):
    return np.concatenate([np.asarray(row, dtype=np.float64) for row in rows])


def double(x):
    return torch.tensor(x, dtype=torch.float64)


def one_step_episodes(group, reward, **columns):
    n = len(group)
    return StepBatch.of(group=group, trajectory=range(n), state=range(n), reward=reward, **columns)


def episodes_of(trajs):
    return batch_of(
        *(
            {
                "group": traj.get("group", 0),
                "states": traj["obs"],
                "rewards": traj.get("r", [0.0] * (len(traj["obs"]) - 1) + [10.0 * traj.get("success", 0)]),
                "valid": [bool(v) for v in traj.get("valid", [1] * len(traj["obs"]))],
                "actions": traj.get("act", "a" * len(traj["obs"])),
                "final": traj.get("final", f"end {i}"),
            }
            for i, traj in enumerate(trajs)
        )
    )


def rows_of(case, batch, name):
    """Return a column of the case's rows, whose positions must be the batch's."""
    rows = case["rows"]
    assert [(row["traj"], row["t"]) for row in rows] == list(
        zip(batch.trajectory.tolist(), batch.step.tolist(), strict=True)
    )
    return [row[name] for row in rows]


def check_grpo(case):
    batch = one_step_episodes(case["group"], case["R"])
    options = {"compat": Compat(singleton=case["singleton"], episode_stat=case["episode_stat"])}
    close(grpo.advantage(batch, std=case["norm_std"], **options), case["adv"])
    if case["norm_std"]:
        for module in (dapo, gspo):
            close(module.advantage(batch, **options), case["adv"])
    else:
        close(grpo.advantage(batch, **grpo.DR_GRPO, **options), case["adv"])


def check_rloo(case):
    batch = one_step_episodes(case["group"], case["R"])
    close(rloo.advantage(batch, compat=Compat(singleton=case["singleton"])), case["adv"])


def check_reinforce_pp(case):
    mask = np.array(case["mask"], dtype=bool)
    batch = one_step_episodes(range(len(mask)), [0.0] * len(mask), tokens=[mask.shape[1]] * len(mask))
    options = {
        "rewards": flat(case["token_rewards"]),
        "mask": mask.ravel(),
        "gamma": case.get("gamma"),
    }
    close(reinforce_pp.advantage(batch, **options, whiten=False), flat(case["returns"]) * mask.ravel())
    close(reinforce_pp.advantage(batch, **options), flat(case["adv"]))


def check_baseline(case):
    batch = one_step_episodes(case["group"], case["R"], tokens=case["lengths"])
    first = np.cumsum(case["lengths"]) - case["lengths"]
    compat = Compat(singleton=case["singleton"])
    centered = reinforce_pp.baseline_advantage(batch, compat=compat, whiten=False)
    close(centered[first], case["centered"])
    result = reinforce_pp.baseline_advantage(batch, compat=compat)
    close(result, np.repeat(case["adv_per_row"], case["lengths"]))


def check_gae(case):
    reward, values, n = flat([case["r"]]), flat([case["v"]]), len(case["r"])
    options = {"gamma": case["gamma"], "lam": case["lam"]}
    after = case.get("bootstrap", 0.0)
    cut = "bootstrap" in case
    one_step = one_step_episodes([0], [0.0], tokens=[n], truncated=[cut], next_values=[after])
    close(ppo.advantage(one_step, values=values, rewards=reward, whiten=False, **options), case["adv"])
    steps = batch_of({"states": range(n), "rewards": case["r"]}).with_columns(
        values=values, next_values=np.full(n, after), truncated=np.arange(n) == (n - 1 if cut else n)
    )
    close(steppo.advantage(steps, **options), case["adv"])
    close(gae(reward, values, np.zeros(n, np.int64), bootstrap=np.full(n, after), **options), case["adv"])


def check_steppo_gae(case):
    trajs = case["trajs"]
    batch = batch_of(*({"states": range(len(traj["r"])), "rewards": traj["r"]} for traj in trajs))
    batch = batch.with_columns(values=flat(traj["v"] for traj in trajs))
    options = {"gamma": case["gamma"], "lam": case["lam"]}
    close(steppo.advantage(batch, **options), flat(case["adv_raw"]))
    close(steppo.returns(batch, **options), flat(case["returns"]))
    close(steppo.advantage(batch, whiten=True, **options), flat(case["adv_whitened"]))


def check_gigpo(case):
    assert case["singleton"] == "raw episode, zero step"
    batch = episodes_of(case["trajs"])
    compat = Compat(
        invalid_penalty=case["invalid_penalty"], episode_stat=case["episode_stat"], singleton="raw"
    )
    options = {
        "gamma": case["gamma"],
        "std": {"mean_std_norm": True, "mean_norm": False}[case["mode"]],
        "compat": compat,
    }
    episode = gigpo.advantage(batch, weight=0.0, **options)
    result = gigpo.advantage(batch, weight=case["w"], **options)
    close(episode, rows_of(case, batch, "A_E"))
    close((result - episode) / case["w"], rows_of(case, batch, "A_S"))
    close(result, rows_of(case, batch, "A"))
    close(step_returns(batch, gamma=case["gamma"], compat=compat), rows_of(case, batch, "G"))
    assert group_sizes(match_states(batch)).tolist() == rows_of(case, batch, "group_size")


def check_gigpo_paper(case):
    """A case without trajectories is about those of the first."""
    first = golden()["gigpo_paper"][0]
    result = gigpo.advantage(
        episodes_of(case.get("trajs") or first["trajs"]),
        gamma=case.get("gamma", first["gamma"]),
        compat=Compat(invalid_penalty=case["penalty"], episode_stat=case["episode_stat"]),
    )
    close(result, case["A"])


def check_hgpo(case):
    assert case["ddof"] == 0
    batch = episodes_of(case["trajs"])
    result = hgpo.advantage(
        batch,
        gamma=case["gamma"],
        history=case["K"],
        alpha=case["alpha"],
        base_group=case["base_group"],
        std={"mean_std_norm": True, "mean_norm": False}[case["mode"]],
    )
    close(result, rows_of(case, batch, "A"))
    for value, levels in zip(result, rows_of(case, batch, "levels"), strict=True):
        weights = [(k + 1) ** case["alpha"] for k, _ in levels]
        total = sum(w * a for w, (_, a) in zip(weights, levels, strict=True))
        close(value, total / (sum(weights) + EPS))


def check_graphgpo(case):
    batch = episodes_of(case["trajs"])
    omega, convention, success = case["omega"], case["convention"], case.get("r_succ", 10)
    options = {
        "omega": omega,
        "success_reward": success,
        "convention": convention,
        "edges": case["edges"],
        "compat": Compat(episode_stat=case["episode_stat"], singleton=case["singleton"]),
    }
    close(graphgpo.advantage(batch, episode_weight=0.0, **options), rows_of(case, batch, "A_G"))
    close(graphgpo.advantage(batch, graph_weight=0.0, **options), rows_of(case, batch, "A_E"))
    close(graphgpo.advantage(batch, **options), rows_of(case, batch, "A"))
    left = distance(batch, *match_edges(batch), np.ones(len(batch)))
    names = []
    for traj in case["trajs"]:
        end = "__SUCCESS__" if traj["success"] else traj.get("final", "nowhere")
        names += [*traj["obs"][1:], end]
    close(left, [case["distance"].get(name, case["d_max"] + 1) for name in names])
    worth = success * omega ** (left + (convention == "paper"))
    positions = [f"{i},{t}" for i, t in zip(batch.trajectory, batch.step, strict=True)]
    close(worth, [case["R"][position] for position in positions])


def check_graphgpo_paper(case):
    """Cases without trajectories are about the paper's figure, under its settings."""
    batch = episodes_of(case.get("trajs") or golden()["graphgpo"][0]["trajs"])
    result = graphgpo.advantage(
        batch,
        omega=case.get("omega", 0.5),
        convention=case.get("convention", "paper"),
        compat=Compat(episode_stat=case.get("episode_stat", "trajectory")),
        edges=case.get("edges", "occurrence"),
        std=case.get("norm_std", True),
        episode_weight=0.0 if "A_G" in case else 1.0,
    )
    close(result, case["A"] if "A" in case else list(case["A_G"].values()))


def check_spo3_score(case):
    options = {name: case[name] for name in ("alpha", "xi", "zeta") if name in case}
    score = spo3.score([case["n_success"]], [case["n_total"]], [case["t"]], **options)
    close(score, [case["S"]])
    assert spo3.rollouts(score).tolist() == [case["K"]]


def check_spo3_reward(case):
    totals = {"total": [case["n_total"]], "decay": case["omega_k"]}
    close(spo3.reward([1], [0.0], [0.0], [0.0], **totals), [case["omega"]])
    result = spo3.reward([case["changed"]], [case["success"]], [case["S_t"]], [case["S_next"]], **totals)
    close(result, [case["R"]])


def check_istar(case):
    trajs, beta = case["trajs"], case["beta"]
    batch = batch_of(*({"states": range(len(traj["lp_prm"]))} for traj in trajs)).with_columns(
        outcome=flat([traj["outcome"]] * len(traj["lp_prm"]) for traj in trajs),
        tokens=np.array([len(step) for traj in trajs for step in traj["lp_prm"]]),
    )
    prm, old = (flat(step for traj in trajs for step in traj[key]) for key in ("lp_prm", "lp_old"))
    rewards = istar.step_rewards(prm, old, batch, beta=beta)
    options = {"std": {"mean_std_norm": True, "mean_norm": False}[case["mode"]]}
    close(rewards, flat(case["step_reward"]))
    close(istar.advantage(batch, rewards, alpha=0.0, **options)[batch.starts], case["A_E"])
    alone = istar.advantage(batch, rewards, episode=np.zeros(len(batch)), **options)
    close(alone, rows_of(case, batch, "A_S"))
    close(istar.advantage(batch, rewards, alpha=case["alpha"], **options), rows_of(case, batch, "A"))

    layout = TokenLayout.packed(torch.from_numpy(batch.tokens))
    implicit = process.implicit_rewards(torch.from_numpy(prm), torch.from_numpy(old), layout, beta=beta)
    outcome = double([traj["outcome"] for traj in trajs])
    for pooling, name in (("sum", "dpo_sum"), ("mean", "dpo_code_mean")):
        scores = process.pool(implicit, torch.from_numpy(batch.trajectory), pooling)
        close(scores, case[name]["h"])
        result = process.preference_loss(scores, outcome, torch.zeros(len(trajs), dtype=torch.int64))
        assert result.pairs == case[name]["pairs"]
        close(result.loss, case[name]["loss"])


def check_prime(case):
    mask = np.array(case["mask"], dtype=bool)
    n, q = case["n"], flat(case["q"])
    answers = len(mask)
    batch = one_step_episodes(
        np.arange(answers) // n, [0.0] * answers, outcome=case["acc"], tokens=[mask.shape[1]] * answers
    )
    options = {"mask": mask.ravel(), "beta": case["beta"]}
    weights = {"process_weight": case["coef_dpo"], "outcome_weight": case["coef_gt"]}
    result = prime.advantage(batch, q, **options, **weights)
    close(result, flat(case["adv"]))
    close(result, masked_whiten(flat(case["returns"]), mask.ravel()))
    # The normalised rewards alone, each less the mean of the other answers' means.
    rewards = np.array(case["r_norm"])
    means = (rewards * mask).sum(1) / mask.sum(1)
    others = (n * rewards - means.sum()) / (n - 1) * mask
    sums = np.cumsum(others[:, ::-1], axis=1)[:, ::-1]
    only = prime.advantage(batch, q, **options, process_weight=1.0, outcome_weight=0.0)
    close(only, masked_whiten(sums.ravel(), mask.ravel()))

    scores = process.implicit_rewards(
        double(case["q"]),
        torch.zeros(mask.shape),
        TokenLayout.padded(torch.from_numpy(mask)),
        beta=case["beta"],
    )
    close(process.outcome_loss(scores, double(case["acc"])), case["ce_loss"])


def check_policy_loss(case):
    objective = {
        "ppo": ppo.OBJECTIVE,
        "dapo_clip_higher": dapo.OBJECTIVE,
        "grpo_seq_mean": grpo.OBJECTIVE,
    }[case["kind"]]
    assert objective.aggregation == case.get("agg", "token-mean")
    assert (objective.clip_low, objective.clip_high) == (case.get("lo_c", 0.2), case.get("hi_c", 0.2))
    logp, old, adv = double(case["logp"]), double(case["old"]), double(case["adv"])
    close(clipped_surrogate(logp - old, adv, objective), case["per_token"])
    mask = torch.tensor(case["mask"])
    result = policy_loss(logp, old, adv, TokenLayout.padded(mask), objective)
    close(result.terms, double(case["per_token"])[mask.bool()])
    close(result.loss, case["loss"])


def check_gspo_loss(case):
    assert (gspo.OBJECTIVE.clip_low, gspo.OBJECTIVE.clip_high) == (case["clip_low"], case["clip_high"])
    layout = TokenLayout.padded(torch.tensor(case["mask"]))
    result = policy_loss(
        double(case["logp"]), double(case["old"]), double(case["adv"]), layout, gspo.OBJECTIVE
    )
    close(result.ratio, double(case["seq_ratio"])[layout.row])
    close(result.loss, case["loss"])


def check_dual_clip(case):
    objective = Objective(dual_clip=case["c"])
    close(clipped_surrogate(double(case["ratio"]).log(), double(case["adv"]), objective), case["loss"])


def check_kl(case):
    close(kl_terms(double(case["logp"]), double(case["ref"]), "k3"), case["kl"])


def check_overlong(case):
    limits = {"max_tokens": case["max_len"], "buffer": case["buffer"]}
    close(overlong_penalty(np.array([case["length"]]), **limits), [case["penalty"]])


def check_keep(case):
    assert varied(one_step_episodes(case["group"], case["R"])).tolist() == case["keep"]


def check_singleton_zero(case):
    """The episodes of the families' own cases with a group of one, under the default."""
    for family, module in (("grpo", grpo), ("rloo", rloo)):
        source = golden()[family][-1]
        close(module.advantage(one_step_episodes(source["group"], source["R"])), case[family])
    source = golden()["reinforce_plus_plus_baseline"][-1]
    batch = one_step_episodes(source["group"], source["R"], tokens=source["lengths"])
    expected = np.repeat(case["rfpp_baseline"], source["lengths"])
    close(reinforce_pp.baseline_advantage(batch), expected)


def loss_of_steps(case, objective):
    steps = [step for traj in case["log_ratio"] for step in traj]
    trajectory = np.repeat(np.arange(len(case["log_ratio"])), [len(traj) for traj in case["log_ratio"]])
    layout = TokenLayout.packed(
        torch.tensor([len(step) for step in steps]), trajectory=torch.from_numpy(trajectory)
    )
    log_ratio = torch.from_numpy(flat(steps))
    advantages = torch.from_numpy(flat(case["A"]))
    return policy_loss(log_ratio - 2.0, torch.full_like(log_ratio, -2.0), advantages, layout, objective).loss


def check_steppo_loss(case):
    low, high = case["clip"]
    base = {"Eq. 8": steppo.OBJECTIVE, "batch-steps": steppo.PUBLIC_OBJECTIVE}[case["agg"]]
    close(loss_of_steps(case, replace(base, clip_low=low, clip_high=high)), case["loss"])


def check_step_ratio_loss(case):
    ratios = {
        "product (iStar Eq. 6, GiGPO Eq. 9)": [istar.OBJECTIVE, gigpo.OBJECTIVE, graphgpo.OBJECTIVE],
        "geometric mean (GSPO, StepPO Eq. 7)": [replace(istar.OBJECTIVE, ratio="step_geomean")],
    }
    for objective in ratios[case["ratio"]]:
        assert (objective.clip_low, objective.clip_high) == (case["clip"], case["clip"])
        close(loss_of_steps(case, objective), case["loss"])


CHECKS = {
    "grpo": (check_grpo, 4),
    "rloo": (check_rloo, 2),
    "reinforce_plus_plus": (check_reinforce_pp, 2),
    "reinforce_plus_plus_baseline": (check_baseline, 2),
    "gae": (check_gae, 2),
    "steppo_gae": (check_steppo_gae, 2),
    "gigpo": (check_gigpo, 5),
    "gigpo_paper": (check_gigpo_paper, 2),
    "hgpo": (check_hgpo, 3),
    "graphgpo": (check_graphgpo, 3),
    "graphgpo_paper": (check_graphgpo_paper, 6),
    "3spo_score": (check_spo3_score, 7),
    "3spo_score_alpha1": (check_spo3_score, 2),
    "3spo_reward": (check_spo3_reward, 4),
    "istar": (check_istar, 2),
    "prime": (check_prime, 2),
    "policy_loss": (check_policy_loss, 6),
    "gspo_loss": (check_gspo_loss, 2),
    "ppo_dual_clip": (check_dual_clip, 1),
    "kl_k3": (check_kl, 2),
    "dapo.overlong": (check_overlong, 3),
    "dapo.keep": (check_keep, 1),
    "singleton_zero": (check_singleton_zero, 1),
    "steppo_loss": (check_steppo_loss, 4),
    "step_ratio_loss": (check_step_ratio_loss, 2),
}
"""Family -> how one of its cases is checked, and how many it has."""


def test_every_family_and_case_is_covered():
    assert {name: len(cases) for name, cases in golden().items()} == {
        name: count for name, (_, count) in CHECKS.items()
    }


@pytest.mark.parametrize(
    ("family", "index"), [(name, i) for name, (_, count) in CHECKS.items() for i in range(count)]
)
def test_reference_numbers(family, index):
    case = Case(golden()[family][index])
    CHECKS[family][0](case)
    assert not set(case) - case.read - PROSE, "entries of the case that its check never read"
