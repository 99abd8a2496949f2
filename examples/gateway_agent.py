"""An agent that knows nothing of agentgym is trained by the gateway: a shell serves, one plays, one learns.

agentgym serve gateway MODEL --env agentgym/WebShop-v0 --split train --pool pool --follow runs/shop
python examples/gateway_agent.py http://127.0.0.1:8000 40
agentgym train gigpo --env agentgym/WebShop-v0 --model MODEL --rollouts pool --out runs/shop --iterations 40 \
  --set rollout.tasks=16 --set prompting.choice=free --set prompting.answer=think-action \
  --set checkpoint_every=1
"""

import ssl
import string
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai

TASKS, ATTEMPTS, TURNS = 16, 8, 8
CERTIFICATES = ssl.create_default_context()  # once: it takes longer than an episode's requests
BUTTONS = ("Search", "Buy Now", "Next >", "< Prev", "Back to Search", "Description", "Features", "Reviews")


def read(page: str, goal: str, possible: list[str]) -> tuple[str, dict[str, str]]:
    """Return a page with a letter behind all that can be clicked, and what each letter does.

    The shop's own buttons have capital letters, always the same ones.
    """
    lines, actions, small = [], {}, iter(string.ascii_lowercase)
    for part in page.split(" [SEP] "):
        action = f"search[{goal}]" if part == "Search" else f"click[{part.lower()}]"
        letter = ""
        if part == "Search" or action in possible:
            letter = string.ascii_uppercase[BUTTONS.index(part)] if part in BUTTONS else next(small, "")
        if letter:
            actions[letter] = action
        lines.append(f"{part} :{letter}" if letter else part)
    return "\n".join(lines), actions


def play(url: str, task: int, **group: Any) -> Any:
    """Play an episode, each page in a chat of its own; return the gateway's answer to its end."""
    with openai.DefaultHttpxClient(base_url=url, timeout=600, verify=CERTIFICATES) as http:

        def post(path: str, **body: Any) -> Any:
            return http.post(path, json=body).raise_for_status().json()

        session = post("/sessions", index=task, **group)
        row, path = session["env"], f"/sessions/{session['session_id']}"
        model = openai.OpenAI(base_url=session["base_url"], api_key="none", http_client=http)
        for _ in range(TURNS):
            seen = row["metadata"]
            page, actions = read(row["observation"]["text"], seen["goal"], seen["admissible_actions"])
            chat: Any = [{"role": "user", "content": page}]
            answer = model.chat.completions.create(model="any", messages=chat, max_tokens=2)
            letter = answer.choices[0].message.content or ""
            row = post(f"{path}/env/step", action=actions.get(letter, letter))
            if row["done"]:
                break
        return post(f"{path}/complete")


def main(url: str, updates: int, first: int = 0) -> None:
    """Play what each update learns from as soon as the weights of the one before it are there."""
    threads = ThreadPoolExecutor(TASKS * ATTEMPTS)
    with threads, openai.DefaultHttpxClient(base_url=url, verify=CERTIFICATES) as http:
        for update in range(updates):
            while http.get("/health").raise_for_status().json()["version"] < update:
                time.sleep(0.2)
            tasks = range(first + update * TASKS, first + (update + 1) * TASKS)
            played = [
                threads.submit(play, url, task, group=f"shop {task}", group_size=ATTEMPTS)
                for task in tasks
                for _ in range(ATTEMPTS)
            ]
            for episode in played:
                episode.result()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
