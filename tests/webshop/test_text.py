"""Pages as text, literally: the original's two modes, its quirks, GiGPO's form, histories."""

from agentgym.envs.webshop.engine.pages import Node
from agentgym.envs.webshop.engine.text import pieces, plain, rich
from tests.webshop.corner import LAMPS, RUG, play, visit_shop

OPEN = ("search[lamp]", f"click[{LAMPS[3].asin.lower()}]")
RUG_OPEN = ("search[rug]", f"click[{RUG.asin.lower()}]")


def test_text():
    env, observation, info = visit_shop()
    wish = info["goal"]
    assert wish.startswith("i want a red lamp, and price lower than ")
    assert observation == f"WebShop [SEP] Instruction: [SEP] {wish} [SEP] Search"
    assert play(env, "search[rug]")[0] == (
        f"Instruction: [SEP] {wish} [SEP] Back to Search [SEP] Page 1 (Total results: 1) [SEP] Next > [SEP] "
        "B0000000RU [SEP] Wool Rug [SEP] $985.0"
    )
    observation = play(env, *OPEN, "click[navy]")[0]
    assert observation == (
        f"Instruction: [SEP] {wish} [SEP] Back to Search [SEP] < Prev [SEP] color [SEP] dark red [SEP] navy "
        "[SEP] white [SEP] size [SEP] small [SEP] large [SEP] Brass Desk Lamp 3 [SEP] Price: $13.0 [SEP] "
        "Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
    )
    head = f"Instruction: [SEP] {wish} [SEP] Back to Search [SEP] < Prev"
    assert play(env, "click[description]")[0] == f"{head} [SEP] A lamp for reading."
    assert play(env, "click[< prev]", "click[features]")[0] == f"{head} [SEP] Bright LED [SEP] Easy to clean"
    assert play(env, "click[< prev]", "click[reviews]")[0] == head


def test_text_rich():
    env, observation, info = visit_shop(observation="text_rich")
    wish = info["goal"]
    assert observation == f"WebShop\nInstruction: \n{wish}\n[button] Search [button_]\n"
    assert play(env, *RUG_OPEN, "search[rug]")[0] == (
        f"Instruction:\n{wish}\n[button] Back to Search [button_]\nPage 1 (Total results: 1)\n"
        "[button] Next > [button_]\n\n[clicked button] B0000000RU [clicked button_]\nWool Rug\n$985.0\n"
    )
    observation = play(env, *OPEN, "click[navy]", "click[small]")[0]
    assert observation == (
        f"You have clicked small.\nYou have clicked navy.\nInstruction:\n{wish}\n"
        "[button] Back to Search [button_]\n[button] < Prev [button_]\ncolor\n  [button] dark red [button_]\n"
        "  [clicked button] navy [clicked button_]\n  [button] white [button_]\nsize\n"
        "  [clicked button] small [clicked button_]\n  [button] large [button_]\nBrass Desk Lamp 3\n"
        "Price: $13.0\nRating: N.A.\n[button] Description [button_]\n[button] Features [button_]\n"
        "[button] Reviews [button_]\n[button] Buy Now [button_]\n"
    )
    assert play(env, "click[features]")[0].endswith(
        "[button] < Prev [button_]\n Bright LED \n Easy to clean \n"
    )


def test_blanks_are_those_of_the_original_s_html_parser():
    """A text of blanks alone vanishes if it has a line break, and is one space otherwise."""
    nodes = [Node("fact", text) for text in ("", " ", "  \t", " \n ", "\u00a0", " a ", "\x0b")]
    assert rich(nodes, "") == " \n \n\u00a0\n a \n\x0b\n"
    assert plain(nodes, "") == " [SEP]  [SEP]  [SEP] a [SEP] "
    env, *_ = visit_shop(observation="text_rich")
    assert play(env, *RUG_OPEN, "click[features]")[0].endswith("[button] < Prev [button_]\n \n")
    assert play(env, "click[< prev]", "click[description]")[0].endswith("[button] < Prev [button_]\n")


def clicked(observation):
    return [line[19:-18] for line in observation.split("\n") if line.startswith("  [clicked")]


def test_what_is_chosen_is_shown():
    env, *_ = visit_shop(observation="text_rich")
    assert clicked(play(env, *RUG_OPEN, 'click[3"]')[0]) == ['3"']
    assert clicked(play(env, "click[grün]")[0]) == ["grün"]
    assert clicked(play(env, "click[same]")[0]) == ["grün", "same"]  # of `cut`, the last to have it


def test_upstream_shows_as_chosen_what_it_finds_in_the_address():
    env, *_ = visit_shop(observation="text_rich", parity="upstream")
    assert clicked(play(env, *RUG_OPEN, 'click[3"]')[0]) == []
    assert clicked(play(env, "click[grün]")[0]) == []
    observation = play(env, "click[same]")[0]  # both options have the value, and one is called "cut"
    assert clicked(observation) == ["same", "same", "same", "cut"]
    assert observation.startswith(
        "You have clicked cut.\nYou have clicked same.\nYou have clicked same.\nYou have clicked same.\n"
    )
    assert clicked(play(env, 'search["oval" rug]', f"click[{RUG.asin.lower()}]")[0]) == ["oval"]


def test_the_last_page_hides_the_score_unless_it_is_asked_for():
    thanks = (
        "Thank you for shopping with us! [SEP] Your code: [SEP] None [SEP] (Paste it in your MTurk "
        "interface.) [SEP] Purchased [SEP] asin [SEP] B000000003 [SEP] options [SEP] {} [SEP] attrs [SEP] "
        "None [SEP] category [SEP] None [SEP] query [SEP] None [SEP] product category [SEP] None [SEP] "
        "Target [SEP] asin [SEP] options [SEP] attrs [SEP] price upper [SEP] instuction text [SEP] "
        "category [SEP] product category [SEP] query [SEP] Goal [SEP] None"
    )
    ending = " [SEP] Reward [SEP] Your score (min 0.0, max 1.0) [SEP] {} [SEP] Reward Details [SEP] None"
    for options, shown in (({}, False), ({"parity": "upstream"}, True), ({"hide_score": False}, True)):
        env, *_ = visit_shop(**options)
        observation, reward, *_ = play(env, *OPEN, "click[buy now]")
        assert 0.0 < reward < 1.0
        assert observation == thanks + (ending.format(reward) if shown else "")
    env, *_ = visit_shop(parity="upstream", hide_score=True)
    assert play(env, *OPEN, "click[buy now]")[0] == thanks


def test_the_last_page_prints_options_as_the_original_s_json():
    env, *_ = visit_shop()
    observation = play(env, *RUG_OPEN, "click[grün]", "click[oval]", "click[buy now]")[0]
    assert 'options [SEP] {"cut": "oval", "fit": "gr\\u00fcn"} [SEP]' in observation


def test_gigpo_s_form_is_what_follows_the_instruction_in_quotes():
    env, observation, info = visit_shop(observation="gigpo")
    assert observation == "'Search'"
    assert info["goal"] not in play(env, "search[rug]")[0]
    assert play(env, "search[rug]")[0] == (
        "'Back to Search' [SEP] 'Page 1 (Total results: 1)' [SEP] 'Next >' [SEP] 'B0000000RU' [SEP] "
        "'Wool Rug' [SEP] '$985.0'"
    )
    assert play(env, *OPEN, "click[buy now]")[0].startswith(
        "Thank you for shopping with us! [SEP] Your code:"
    )
    assert pieces([Node("fact", "a"), Node("fact", "b")], "wish") == "a [SEP] b"


def test_nothing_is_added_to_a_rejected_action_s_page_under_parity():
    env, observation, _ = visit_shop(parity="upstream")
    assert play(env, "click[nothing]")[0] == observation
    env, observation, _ = visit_shop(observation="text_rich")
    assert play(env, "click[nothing]")[0] == observation + "That action is not possible here.\n"


def test_histories_come_newest_last():
    pages = {}
    env, pages[0], _ = visit_shop()
    actions = ("search[rug]", RUG_OPEN[1], "nonsense", "click[features]")
    for turn, action in enumerate(actions, start=1):
        pages[turn] = play(env, action)[0]
    for observations, count in ((2, 2), (0, 1), (1, 0), (1, 3), (3, 1)):
        env, first, _ = visit_shop(previous_observations=observations, previous_actions=count)
        assert first == pages[0]
        for turn, action in enumerate(actions, start=1):
            expected = []
            for past in range(turn):
                if turn - past <= observations:
                    expected.append(pages[past])
                if turn - past <= count:
                    expected.append(actions[past])
            assert play(env, action)[0] == " [SEP] ".join([*expected, pages[turn]])


def test_histories_survive_a_snapshot():
    env, *_ = visit_shop(previous_observations=2, previous_actions=2)
    play(env, *RUG_OPEN)
    snapshot = env.snapshot()
    expected = play(env, "click[features]")[0]
    env.reset(seed=3)
    env.restore(snapshot)
    assert play(env, "click[features]")[0] == expected


def test_instructions_stand_as_they_are():
    """Stripped in plain text, as they are in rich text, whatever is in them."""
    nodes = [Node("label", "Instruction:"), Node("instruction", ""), Node("button", "Go")]
    wish = "  a {lamp} [SEP] \\n %s "
    assert plain(nodes, wish) == f"Instruction: [SEP] {wish.strip()} [SEP] Go"
    assert rich(nodes, wish) == f"Instruction:\n{wish}\n[button] Go [button_]\n"
