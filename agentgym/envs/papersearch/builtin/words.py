"""Topics of the built-in papers, in the project's own words.

A subject has several names, and a paper keeps to one of them, as schools of a field do: whoever searches
under one name finds the others' papers through citations, or by learning their words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

SubjectNames: TypeAlias = tuple[str, ...]
"""Names of one subject, the usual one first; no two share a word that matters."""

AREAS: Mapping[str, tuple[SubjectNames, ...]] = {
    "river science": (
        ("flood forecasting", "high-water prediction", "inundation outlooks"),
        ("sediment transport", "bedload motion", "silt carriage"),
        ("river ice", "frozen channels", "freeze-up of streams"),
        ("fish passage", "salmon ladders", "migration past weirs"),
        ("bank erosion", "shoreline retreat", "undercut slopes"),
        ("water quality", "dissolved pollutants", "nutrient contamination"),
    ),
    "bridge engineering": (
        ("cable fatigue", "strand ageing", "wire rope wear"),
        ("pier scour", "foundation washout", "undermined footings"),
        ("deck vibration", "footfall resonance", "span oscillation"),
        ("bearing replacement", "support renewal", "exchange of seats"),
        ("wind flutter", "aeroelastic instability", "gust response"),
        ("load rating", "capacity assessment", "weight posting"),
    ),
    "crop research": (
        ("wheat rust", "stem blight", "cereal fungus"),
        ("drip irrigation", "trickle watering", "root-zone dosing"),
        ("soil compaction", "tillage hardpan", "wheel-track density"),
        ("pollinator decline", "loss of bees", "shrinking hives"),
        ("weed control", "herbicide timing", "hoeing schedules"),
        ("yield estimation", "harvest projection", "grain tonnage counts"),
    ),
    "city transport": (
        ("bus bunching", "headway collapse", "platooned coaches"),
        ("cycle lanes", "bikeways", "pedal corridors"),
        ("parking search", "kerbside cruising", "hunting for bays"),
        ("signal timing", "traffic-light plans", "green phases"),
        ("night ferries", "late boats", "after-hours crossings"),
        ("freight delivery", "van logistics", "last-mile parcels"),
    ),
    "museum studies": (
        ("visitor flow", "crowd routing", "gallery footpaths"),
        ("textile conservation", "fabric preservation", "tapestry care"),
        ("audio guides", "spoken tours", "handheld narration"),
        ("provenance research", "ownership tracing", "acquisition records"),
        ("display lighting", "lamp exposure", "luminaire damage"),
        ("school programmes", "pupil workshops", "classroom outreach"),
    ),
    "ocean acoustics": (
        ("whale calls", "cetacean song", "baleen vocalisation"),
        ("ship noise", "propeller hum", "vessel sound emission"),
        ("sonar mapping", "echo bathymetry", "seabed ping surveys"),
        ("reef soundscapes", "coral chorus", "shrimp crackle"),
        ("harbour monitoring", "port listening", "quayside hydrophones"),
        ("tsunami warning", "seismic wave alerts", "tidal surge alarms"),
    ),
    "building energy": (
        ("heat pumps", "ground-source warming", "reversible chillers"),
        ("window glazing", "pane insulation", "double-sheet panels"),
        ("attic ventilation", "roof-space airing", "loft draughts"),
        ("tenant behaviour", "occupant habits", "resident routines"),
        ("district heating", "shared boilers", "steam mains"),
        ("solar facades", "photovoltaic cladding", "sun-facing envelopes"),
    ),
    "library science": (
        ("catalogue errors", "record mistakes", "faulty entries"),
        ("book theft", "missing volumes", "stolen holdings"),
        ("reading rooms", "study halls", "quiet desks"),
        ("interlibrary loans", "borrowing between branches", "shared lending"),
        ("shelf ordering", "stack arrangement", "call-number layout"),
        ("oral histories", "recorded testimony", "spoken memoirs"),
    ),
}

METHODS: tuple[SubjectNames, ...] = (
    ("neural networks", "layered learners"),
    ("Kalman filters", "recursive estimators"),
    ("finite elements", "mesh discretisation"),
    ("field surveys", "on-site campaigns"),
    ("Bayesian inference", "posterior sampling"),
    ("network analysis", "graph measures"),
    ("genetic algorithms", "evolutionary optimisers"),
    ("satellite imagery", "orbital pictures"),
    ("acoustic sensing", "microphone arrays"),
    ("agent-based models", "simulated populations"),
    ("time series", "autoregressive fits"),
    ("laboratory experiments", "bench trials"),
    ("expert interviews", "practitioner questionnaires"),
    ("laser scanning", "lidar point clouds"),
    ("game theory", "strategic equilibria"),
    ("linear programming", "convex solvers"),
)

SETTINGS: tuple[str, ...] = (
    "alpine valleys",
    "harbour towns",
    "monsoon deltas",
    "desert settlements",
    "island communities",
    "northern capitals",
    "mining districts",
    "university campuses",
    "coastal plains",
    "border regions",
    "former docklands",
    "mountain villages",
)

AIMS: tuple[str, ...] = (
    "lower costs",
    "earlier warnings",
    "fewer failures",
    "fairer access",
    "longer service life",
    "smaller measurement errors",
    "less manual work",
    "better planning",
)

TITLES: tuple[str, ...] = (
    "{Subject} with {method} in {setting}",
    "{Method} for {subject}: evidence from {setting}",
    "Towards {aim}: {subject} by means of {method}",
    "{Subject} in {setting}, revisited with {method}",
    "What {method} tell us about {subject}",
    "A comparison of approaches to {subject} in {setting}",
    "{Subject}: lessons from ten years of {method}",
    "Rethinking {subject} in {setting}",
)

OPENINGS: tuple[str, ...] = (
    "In {setting}, {subject} has become a pressing concern for {area}.",
    "Decisions about {subject} are often made with little evidence.",
    "Most of what is known about {subject} comes from a handful of sites.",
    "This paper takes up {subject}, a long-standing question of {area}.",
    "How {subject} develops over the years is poorly understood.",
    "Practice in {setting} shows how much depends on {subject}.",
)

APPROACHES: tuple[str, ...] = (
    "We apply {method} to data gathered over {years} years.",
    "Our approach rests on {method}, adapted to sparse observations.",
    "With {method}, we reconstruct what happened at {sites} sites.",
    "We combine {method} with records kept by local operators.",
    "A protocol built around {method} is described and tested at {sites} sites.",
    "We ask whether {method} can replace the customary procedure.",
)

CONTRASTS: tuple[str, ...] = (
    "Unlike studies of {other}, we cannot rely on dense measurements.",
    "The procedure was first proposed for {other} and is transferred here.",
    "Results on {other} suggest that the effect is not limited to our case.",
    "Earlier attempts borrowed {rival} from work on {other}, with mixed success.",
    "We also discuss why {rival} did not help.",
)

FINDINGS: tuple[str, ...] = (
    "The error falls by {percent} per cent against the usual baseline.",
    "Effects are strongest in {setting} and vanish elsewhere.",
    "Agreement with independent observations reaches {percent} per cent.",
    "Contrary to expectation, simple rules do as well in {percent} per cent of the cases.",
    "The gains persist when {percent} per cent of the records are withheld.",
)

CLOSINGS: tuple[str, ...] = (
    "The findings point to {aim} at modest expense.",
    "We close with recommendations for {aim}.",
    "All records are described so that others can repeat the analysis.",
    "Open questions concern the transfer to other regions.",
    "We expect the same procedure to bring {aim} in related fields.",
)

METHOD_QUERIES: tuple[str, ...] = (
    "Which papers study {subject} with {facet}?",
    "Find work that applies {facet} to {subject}.",
    "I am looking for research on {subject} based on {facet}.",
    "Are there studies that use {facet} for {subject}?",
    "Previous work on {subject} by means of {facet}",
)

SETTING_QUERIES: tuple[str, ...] = (
    "Which papers look at {subject} in {facet}?",
    "Find case studies of {subject} from {facet}.",
    "I need an overview of {subject} in {facet}.",
    "What is known about {subject} in {facet}?",
    "Research on {subject} carried out in {facet}",
)
