"""Which words of `agentgym train` make the variants that the papers name."""

from itertools import product

VARIANTS: dict[tuple[str, str, str], tuple[str, ...]] = {
    ("steppo", "steppo", "without step-level GAE"): ("--variant", "no-step-gae"),
    ("steppo", "steppo", "without step-level importance sampling"): ("--variant", "no-step-ratio"),
    ("steppo", "steppo", "without both"): ("--variant", "no-steps"),
    **{
        ("steppo", "steppo", f"{unit}-level GAE, \N{GREEK SMALL LETTER GAMMA} = {gamma}"): (*variant, *words)
        for unit, variant in (("token", ("--variant", "no-step-gae")), ("step", ()))
        for gamma, words in ((0.99, ()), (0.95, ("--set", "algorithm_options.gamma=0.95")))
    },
    **{
        ("graphgpo", name, text): ("--variant", variant)
        for name in ("graphgpo", "gigpo")
        for text, variant in (
            ("without episode-level advantages (- A^E)", "no-episode"),
            ("with dynamic sampling (+ DS)", "ds"),
        )
    },
    **{
        ("graphgpo", "graphgpo", f"ω = {omega}"): ("--set", f"algorithm_options.omega={omega}")
        for omega in (0.1, 0.2, 0.4, 0.6, 0.8, 0.95)
    },
    **{
        ("graphgpo", "graphgpo", f"q = {adverts}, p = {noise}, {matching} matching"): (
            *("--variant", variant),
            *("--set", f"env_options.noise={noise}"),
            *("--set", f"env_options.adverts={adverts}"),
        )
        for adverts, noise in product((1, 2), (0.3, 0.6))
        for matching, variant in (("raw-text", "text"), ("embedding-based", "embedding"))
    },
    **{
        ("graphgpo", name, f"n = {size}"): ("--set", f"rollout.group_size={size}")
        for name, size in product(("grpo", "gigpo", "graphgpo"), (4, 6, 8))
    },
    **{
        ("gigpo", "gigpo", text): ("--variant", variant)
        for text, variant in (
            ("w/ std (F_norm = std)", "std"),
            ("w/o std (F_norm = 1)", "no-std"),
            ("w/o A^S (without step relative advantages)", "no-step"),
            ("w/o A^E (without episode relative advantages)", "no-episode"),
            ("GiGPO_dynamic (dynamic sampling and clip-higher)", "dynamic"),
        )
    },
    **{
        ("3spo", "spo3", text): ("--variant", variant)
        for text, variant in (
            ("w/o novelty reward", "no-novelty"),
            ("w/o state score difference reward", "no-gain"),
            ("w/o adaptive weight (fixed w)", "fixed-weight"),
            ("w/o adaptive rollout (uniform)", "uniform"),
            ("w/o Backtrack", "no-backtrack"),
        )
    },
    **{
        ("3spo", "spo3", f"ξ = {xi}, ζ = {zeta}"): (
            *("--set", f"algorithm_options.xi={xi}"),
            *("--set", f"algorithm_options.zeta={zeta}"),
        )
        for xi, zeta in ((5, 0.05), (10, 0.1), (20, 0.2), (50, 0.3))
    },
    **{
        ("3spo", "spo3", f"\N{GREEK SMALL LETTER ALPHA} = {alpha}"): (
            "--set",
            f"algorithm_options.alpha={alpha}",
        )
        for alpha in (35, 50, 70)
    },
    **{
        ("istar", "istar", text): ("--variant", variant)
        for text, variant in (
            ("RLOO w/ iStar", "over-rloo"),
            ("GRPO w/ iStar", "over-grpo"),
            ("REINFORCE++ w/ iStar", "over-reinforce_pp"),
            ("w/ merged rewards", "merged"),
            ("w/ token-level process rewards", "token"),
            ("w/ ground-truth process rewards", "ground-truth"),
        )
    },
}
"""(paper, algorithm, the paper's words) -> words after ``agentgym train --recipe NAME``."""
