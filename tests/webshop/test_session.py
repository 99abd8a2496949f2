"""The state machine: what each action opens, and what it leaves as it was."""

import pytest

from tests.webshop.corner import LAMPS, RUG, play, visit_shop

LAMP = LAMPS[3]
OPEN = ("search[lamp]", f"click[{LAMP.asin.lower()}]")


def where(env):
    return env.snapshot().state.visit


def clickables(env):
    return [action[6:-1] for action in env.admissible_actions()[1:]]


def test_the_start_page_has_nothing_to_click_but_search():
    env, observation, info = visit_shop()
    assert info["admissible_actions"] == ("search[<query>]",)
    assert observation.startswith("WebShop [SEP] Instruction: [SEP] ")
    assert not play(env, "click[search]")[4]["action_is_valid"]


def test_a_search_opens_the_first_page_of_results():
    env, *_ = visit_shop()
    observation, reward, terminated, _, info = env.step("search[LAMP rug]")
    assert (reward, terminated, info["action_is_valid"]) == (0.0, False, True)
    assert "Page 1 (Total results: 13) [SEP] Next >" in observation
    assert clickables(env) == ["back to search", "next >", *(lamp.asin.lower() for lamp in LAMPS[:10])]
    assert where(env).query == "lamp rug"


def test_pages_turn_past_the_end_and_back():
    env, *_ = visit_shop()
    play(env, "search[lamp]", "click[next >]")
    assert clickables(env) == [
        "back to search",
        "< prev",
        "next >",
        *(lamp.asin.lower() for lamp in LAMPS[10:]),
    ]
    observation = play(env, "click[next >]")[0]
    assert observation.endswith("Page 3 (Total results: 12) [SEP] < Prev [SEP] Next >")
    play(env, "click[< prev]", "click[< prev]")
    assert where(env).number == 1
    assert not env.is_admissible("click[< prev]")


def test_an_item_page_lists_buttons_then_option_values():
    env, *_ = visit_shop()
    play(env, *OPEN)
    tabs = ["description", "features", "reviews"]
    values = ["dark red", "navy", "white", "small", "large"]
    assert clickables(env) == ["back to search", "< prev", *tabs, "buy now", *values]


def test_attributes_have_a_page_where_they_are_shown():
    env, *_ = visit_shop(show_attributes=True)
    play(env, *OPEN)
    assert clickables(env)[2:7] == ["description", "features", "reviews", "attributes", "buy now"]
    observation = play(env, "click[attributes]")[0]
    assert observation.endswith(
        "< Prev [SEP] energy efficient [SEP] easy clean [SEP] garden [SEP] desk lamps [SEP] "
        "Home › Lighting › Desk Lamps"  # noqa: RUF001
    )


def test_options_are_chosen_and_changed_but_not_taken_back():
    env, *_ = visit_shop()
    play(env, *OPEN, "click[navy]", "click[small]", "click[White]")
    assert where(env).options == (("color", "white"), ("size", "small"))
    again = env.state_hash()
    play(env, "click[white]")
    assert env.state_hash() == again


def test_a_sub_page_keeps_the_options_and_leads_back():
    env, *_ = visit_shop()
    play(env, *OPEN, "click[navy]")
    chosen = where(env)
    for page in ("description", "features", "reviews"):
        play(env, f"click[{page}]")
        assert where(env) == chosen._replace(page=page)
        assert clickables(env) == ["back to search", "< prev"]
        assert not env.is_admissible("click[buy now]")
        play(env, "click[< prev]")
        assert where(env) == chosen


def test_leaving_an_item_forgets_it_but_not_that_it_was_opened():
    env, *_ = visit_shop()
    play(
        env,
        "search[lamp]",
        "click[next >]",
        f"click[{LAMPS[11].asin.lower()}]",
        "click[navy]",
        "click[< prev]",
    )
    assert where(env)._asdict() == {
        "page": "results", "query": "lamp", "number": 2, "asin": "", "options": (),
        "visited": (LAMPS[11].asin,), "score": 0.0,
    }  # fmt: skip
    play(env, "search[rug]", f"click[{RUG.asin.lower()}]")
    assert where(env).visited == (LAMPS[11].asin, RUG.asin)
    play(env, "click[back to search]")
    assert where(env) == type(where(env))()


@pytest.mark.parametrize("page", [(), ("search[lamp]",), OPEN, (*OPEN, "click[features]")])
def test_a_search_is_accepted_from_every_page(page):
    env, *_ = visit_shop()
    for action in page:
        env.step(action)
    assert env.is_admissible("search[rug]")
    assert play(env, "search[rug]")[4]["action_is_valid"]
    assert where(env).page == "results"


@pytest.mark.parametrize(
    "action",
    [
        "",
        "buy now",
        "click[]",
        "search[]",
        "Click[buy now]",
        "click[nothing]",
        "search[a[b]",
        "[x]",
        "click[search]",
    ],
)
def test_anything_else_changes_nothing_and_costs_a_step(action):
    env, *_ = visit_shop()
    play(env, *OPEN)
    before, known = where(env), env.state_hash()
    assert not env.is_admissible(action)
    observation, reward, terminated, _, info = env.step(action)
    assert (where(env), env.state_hash(), reward, terminated) == (before, known, 0.0, False)
    assert (info["action_is_valid"], info["turn"]) == (False, 3)
    assert observation.endswith("Buy Now [SEP] That action is not possible here.")


def test_actions_are_read_as_the_original_reads_them():
    """Greedily, in lower case but for the verb, and whatever follows the last bracket."""
    env, *_ = visit_shop()
    play(env, "search[Lamp] please", f"click[{LAMP.asin}]")
    assert where(env).asin == LAMP.asin
    play(env, "click[DARK RED] now")
    assert where(env).options == (("color", "dark red"),)


def test_odd_option_values_act_as_in_the_original():
    """A value named like a button is the button; of two options with one value the last one counts."""
    env, *_ = visit_shop()
    play(env, "search[rug]", f"click[{RUG.asin.lower()}]")
    assert clickables(env) == [
        "back to search", "< prev", "description", "features", "reviews", "buy now",
        '3"', "grün", "next >", "same", "oval", "cut",
    ]  # fmt: skip
    play(env, "click[same]")
    assert where(env).options == (("cut", "same"),)
    play(env, "click[next >]")
    assert where(env).options == (("cut", "same"), ("fit", "next >"))
    play(env, "click[features]")
    assert where(env).page == "features"


def test_a_purchase_ends_the_episode():
    env, *_ = visit_shop()
    _, reward, terminated, truncated, info = play(env, *OPEN, "click[buy now]")
    assert (terminated, truncated) == (True, False)
    assert info["score"] == info["progress"] == reward > 0
    assert info["admissible_actions"] == ()
    assert not env.is_admissible("search[lamp]")


def test_a_query_is_searched_once():
    env, *_ = visit_shop()
    play(env, "search[lamp]", "click[next >]", "click[< prev]", "search[rug]", "search[lamp]")
    assert env.world.searcher.asked == ["lamp", "rug"]
