"""An agent that knows nothing of agentgym is trained by the gateway: a shell serves, one plays, one learns.

agentgym serve gateway MODEL --env agentgym/WebShop-v0 --split train --pool pool --group-size 2 --port 8000
python examples/gateway_agent.py http://127.0.0.1:8000
agentgym train gigpo --env agentgym/WebShop-v0 --model MODEL --rollouts pool --set prompting.choice=free
"""

import sys
from typing import Any

import httpx
import openai

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"
TASKS, ATTEMPTS, TURNS = 2, 2, 6

with httpx.Client(base_url=URL, timeout=600) as http:

    def post(path: str, **body: Any) -> Any:
        """Return the answer to a request of the gateway's own."""
        return http.post(path, json=body).raise_for_status().json()

    for task in range(TASKS):
        for _ in range(ATTEMPTS):
            session = post("/sessions", index=task, group=f"shop {task}")
            path, row = f"/sessions/{session['session_id']}", session["env"]
            goal = "Buy what is asked for: answer with one of the possible actions, and nothing else."
            chat: list[Any] = [{"role": "system", "content": goal}]
            with openai.OpenAI(base_url=session["base_url"], api_key="none") as client:
                for _ in range(TURNS):
                    possible = "\n".join(row["metadata"]["admissible_actions"][:20])
                    seen = row["observation"]["text"]
                    chat.append({"role": "user", "content": f"{seen}\n\nPossible actions:\n{possible}"})
                    answer = client.chat.completions.create(model="any", messages=chat, max_tokens=32)
                    said = answer.choices[0].message.content or ""
                    chat.append({"role": "assistant", "content": said})
                    row = post(f"{path}/env/step", action=said.strip()[:200])
                    if row["done"]:
                        break
            print(post(f"{path}/complete"))
