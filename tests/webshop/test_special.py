"""Special queries: off unless asked for, and the same for all that ask alike."""

import pytest

from agentgym.envs.webshop.env import WebShopEnv
from agentgym.errors import UsageError
from tests.webshop.corner import corner_shop, visit_shop


def found(env, query):
    env.reset(seed=0)
    env.step(f"search[{query}]")
    return [env.world.at(index) for index in env.world.found(query)]


def test_they_are_plain_words_unless_they_are_asked_for():
    env, *_ = visit_shop()
    assert env.step("search[<c> garden]")[0].endswith("Page 1 (Total results: 0) [SEP] Next >")
    assert found(WebShopEnv(), "<c> lamp") == found(WebShopEnv(), "c lamp")


def test_they_find_products_without_the_index():
    env = WebShopEnv(special_queries=True)
    catalogue = env.world.catalogue
    shelf = [catalogue.product(i) for i in range(len(catalogue))]
    item = shelf[7]
    attribute = item.attributes[0]
    assert found(env, f"<c> {item.category}") == [one for one in shelf if one.category == item.category]
    assert found(env, f"<q> {item.query}") == [one for one in shelf if one.query == item.query]
    assert found(env, f"<a> {attribute}") == [one for one in shelf if attribute in one.attributes]
    some = found(env, "<r>")
    assert len({one.asin for one in some}) == 50
    assert found(WebShopEnv(special_queries=True, split="test"), "<r>") == some
    assert found(env, "<r> again") != some
    plain = found(env, item.title)
    assert plain == found(WebShopEnv(), item.title)
    assert plain[0] == item


def test_worlds_with_them_are_told_apart():
    plain, special = WebShopEnv(), WebShopEnv(special_queries=True)
    assert special.world.manifest["search"] == "bm25/1 and special queries"
    assert plain.data_key != special.data_key
    with pytest.raises(UsageError, match="corner was made with its own search: leave out special_queries"):
        WebShopEnv(dataset=corner_shop(), special_queries=True)
