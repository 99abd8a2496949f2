"""What packs are compared with: rows padded on the right to one width, and nothing chunked."""

import torch
from torch.nn.utils.rnn import pad_sequence

from agentgym.algos.loss import entropy


def padded(rows):
    """Return (n, width) token ids and their mask."""
    full = [torch.tensor([*row.prompt_ids, *row.response_ids], dtype=torch.long) for row in rows]
    return pad_sequence(full, batch_first=True), pad_sequence([torch.ones_like(ids) for ids in full], True)


def padded_statistics(model, rows, temperature=1.0):
    """Return (T,) log-probabilities of response tokens and (T,) entropies, of choices where there are any."""
    ids, mask = padded(rows)
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits / temperature
    log_probs, entropies = [], []
    for k, row in enumerate(rows):
        begin = len(row.prompt_ids) - 1
        for place, token in enumerate(row.response_ids):
            here = logits[k, begin + place]
            if row.choices is not None:
                barred = torch.ones(len(here), dtype=torch.bool)
                barred[list(row.choices[place])] = False
                here = here.masked_fill(barred, -torch.inf)
            log_probs.append(here.log_softmax(-1)[token])
            entropies.append(entropy(here))
    return torch.stack(log_probs), torch.stack(entropies)


def padded_values(critic, rows):
    """Return (n,) values at the last tokens of prompts and (T,) before response tokens."""
    ids, mask = padded(rows)
    values = critic.head(critic.body(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state)
    ends = [len(row.prompt_ids) - 1 for row in rows]
    steps = [values[k, end, 0] for k, end in enumerate(ends)]
    tokens = [
        values[k, end + place, 0]
        for k, (row, end) in enumerate(zip(rows, ends, strict=True))
        for place in range(len(row.response_ids))
    ]
    return torch.stack(steps), torch.stack(tokens)
