"""Phrases of sellers: sentences about a product's kind and attributes, and filler.

``{a}`` stands for an attribute, ``{noun}`` for what is sold, ``{brand}`` for who makes it, ``{use}`` for
what it is good for. None of the sentences holds an attribute of its own.
"""

IS = (
    "{a} from the first day to the last.",
    "Designed to be {a}, so there is one thing less to think about.",
    "A {a} {noun} that keeps its promise.",
    "People who returned to us asked for something {a}, and this {noun} is our answer.",
    "Yes, it really is {a}.",
    "Thanks to months of trials it stays {a} even when used every day.",
    "{a}: we checked every batch before it left the workshop.",
    "Being {a}, this {noun} suits {use} better than most.",
    "Why {a}? Because finding something for {use} should be a pleasure and not a chore.",
    "Independent testers rated it {a} under conditions harsher than yours.",
    "{brand} made this {noun} {a} without raising the price.",
    "You will notice at once that it is {a}, and so will your guests.",
)
"""Sentences about what a product is."""

HAS = (
    "With {a} that you can see and feel.",
    "Thanks to {a} it makes all the difference when it comes to {use}.",
    "Fitted with {a}, a detail usually found on dearer models.",
    "{a}: chosen with care by the people at {brand}.",
    "What our customers love most: {a}. We do too.",
    "Built around {a} for results that do not disappoint.",
    "It comes with {a} as standard, at no further cost.",
    "Take a closer look at the {a} and you will understand why this {noun} sells out.",
    "{a} included, tested in our own studio before packing.",
    "What sets this {noun} apart is the {a}.",
    "We added {a} after listening to hundreds of reviews.",
)
"""Sentences about what a product has."""

FILLER = (
    "Perfect for {use}, and for those who value simple things done well.",
    "Please allow small differences between photo and item, since every screen shows colors its own way.",
    "Questions? Write to {brand} and a person will answer within one working day.",
    "A thoughtful present for anyone in want of something for {use}.",
    "Weighs little, does a lot, and looks good while doing it.",
    "Please check the size chart before you order; if between two sizes, take the larger one.",
    "Not happy? Send it back within sixty days, no questions asked.",
    "{brand} has been making things for {use} since a small shop opened by the river.",
    "Each {noun} is inspected by hand and packed in plain cardboard without plastic.",
    "Made for {use}, yet just as welcome anywhere else.",
    "No tools, no fuss, no thick manual: open the box and start.",
    "Now in its third generation, with a dozen quiet improvements under the surface.",
    "One {noun} for the house, one for the office, and one to lend to a friend.",
    "The free guide inside shows ten ways to get more out of it.",
    "We ship from three places so that it reaches you while you still remember ordering it.",
    "Its balanced shape feels natural from the start, whatever the hour.",
    "If this {noun} does not beat the one you own, tell us and we will make it right.",
    "Warm tips from the makers: keep it away from strong sunlight and it will age with grace.",
    "A modest companion for {use} that never asks for attention.",
    "Works as shown, stores easily, and cleans up in a minute.",
    "Pairs well with other articles of the same line, sold separately.",
    "Loved by beginners and by people who have seen it all.",
    "Whether it is for {use} or for something else, you will be glad to have it at hand.",
    "Packed by two, checked by a third, carried to your door by a fourth.",
    "Save room, save time, save money, and still get the real thing.",
    "The look is calm and modern, the finish is even, the edges are neat.",
    "Over forty shops carry {brand} today, and most of them began with this {noun}.",
    "Note: accessories shown in pictures are for scale and do not belong to the offer.",
    "A safe choice when you do not know what to give.",
    "Feel free to ask for a sample; the post is on us.",
    "Resistant to fashions, proof against boredom: that is how we like our work.",
    "Hand on heart, there are cheaper ones, and there are reasons for that.",
    "Friendly people, fast parcels, and a long memory for returning customers.",
    "Our resident tester, aged seven, calls it easy, soft, and quite light enough.",
    "High marks from magazines, low stock after holidays: do not wait too long.",
    "Water, dust, heat, oil: see the label for what it can take and what it cannot.",
    "Fair warning: whoever tries it will want to keep it.",
)
"""Sentences that say nothing one could ask for."""

HEADLINES = (
    "Quality You Can Trust", "Made for You", "Ready When You Are", "What You Get", "The Details",
    "Good to Know", "Our Promise", "Thought Through", "Everyday Use", "Why You Will Like It", "Worry Less",
    "Easy Choice",
)  # fmt: skip
"""Headlines of features."""

SHORT = ("Imported", "See pictures for scale", "Ships in one box", "Model {model}", "By {brand}", "For {use}")
"""Features of a few words."""

PRAISE = (
    "Premium", "Upgraded", "Classic", "New Release", "Professional", "Essential", "Everyday", "Compact",
    "Signature", "Modern", "Original", "Improved",
)  # fmt: skip
"""Words in titles that say nothing one could ask for."""

AUDIENCE = (
    "for Men and Women", "for Adults", "for Everyone", "Great Present", "Best Seller", "Two Year Support",
    "Free Guide Included", "Fits Most", "Nice Present for Friends and Family", "Ideal for Him and Her",
)  # fmt: skip
"""Ends of titles that no goal asks for."""

SYLLABLES = (
    ("bra", "cor", "del", "fen", "gar", "hal", "jun", "kel", "lum", "mor", "nor", "orl", "pel", "quin", "ros",
     "sol", "tav", "ul", "vel", "wex", "yar", "zin"),
    ("a", "e", "i", "o", "u", "ai", "ea", "io"),
    ("bek", "dan", "fex", "gil", "hart", "kin", "lo", "mar", "nix", "pa", "ra", "sen", "ta", "vane",
     "wick", "zo"),
)  # fmt: skip
"""Syllables of brand names, one from each group."""

OPENERS = (
    "I am looking for", "I need", "I want to buy", "Please find me", "Can you get me", "I would like",
    "Show me", "Help me choose", "My friend wished for", "Let us order",
)  # fmt: skip
"""Beginnings of goals."""

WITH = ("with", "featuring", "and it should come with", "and it must have")
"""Phrases before the things that a product must have."""

CHOICES = ("{name} {value}", "in {value} for the {name}", "{value} as {name}", "{name}: {value}")
"""Phrases by which a goal names one value of an option."""

LIMIT_ENDS = (
    ", and price lower than {limit:.2f} dollars",
    ", for less than {limit:.2f} dollars",
    ", my budget is {limit:.2f} dollars",
    ", priced under {limit:.2f} dollars",
)
"""Ends of goals that have a price limit."""
