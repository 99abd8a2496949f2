"""What engines are compared with: plain forward passes, and requests of every kind."""

import torch

from agentgym.inference.engines import GenerationRequest, Sampling

ACTIONS = ("go to shelf 1", "go to shelf 12", "go to drawer 2", "look", "open fridge 1", "go", "look around")


def prompt(vocabulary, length, seed=0):
    """Return random tokens."""
    draws = torch.Generator().manual_seed(1000 * seed + length)
    return tuple(torch.randint(vocabulary, (length,), generator=draws).tolist())


def mixed_requests(language_model, speller, lengths, *, temperature=1.0):
    """Return groups of three with one prompt each, by turns free, of two kinds of choices, and greedy."""
    stops = (*language_model.stop_ids, *range(100, 140))  # likely enough to be met
    kinds = [
        (None, Sampling(temperature=temperature, max_tokens=9, stop_ids=stops)),
        (speller.trie(ACTIONS), Sampling(temperature=temperature)),
        (speller.trie(ACTIONS[2:4]), Sampling(temperature=0.6)),
        (None, Sampling(temperature=0.0, max_tokens=4)),
    ]
    size = len(language_model.tokenizer)
    return [
        GenerationRequest(prompt(size, length), *kinds[k % len(kinds)], seed=10 * k + member)
        for k, length in enumerate(lengths)
        for member in range(3)
    ]


def forward_logprobs(model, request, ids):
    """Compute the response's log-probabilities by one plain pass without cache, padding or batch."""
    temperature = request.sampling.temperature or 1.0
    with torch.no_grad():
        logits = model(torch.tensor([request.prompt_ids + ids])).logits[0].float() / temperature
    rows = logits[len(request.prompt_ids) - 1 : -1]
    if request.allowed is None:
        return [row.log_softmax(-1)[token].item() for row, token in zip(rows, ids, strict=True)]
    sets = request.allowed.allowed_along(ids)
    return [
        (row[token] - row[list(allowed)].logsumexp(0)).item()
        for row, token, allowed in zip(rows, ids, sets, strict=True)
    ]


def close(one, other, tolerance=1e-4):
    return len(one) == len(other) and all(abs(x - y) <= tolerance for x, y in zip(one, other, strict=True))
