"""Routers that a user would otherwise take, on bf16 weights: torch under a CUDA graph, torch.compile of the same, and two
plain Triton launches (a GEMM that splits K, then scores and top-k). Each is checked against float64 before it is timed.

The rule of all: weights = score / sum of the k scores, score = sqrt(softplus(logit)), ranked by score + bias."""

import torch
import triton
import triton.language as tl

ROTATED_BYTES = 220e6  # gates and tokens that calls take turns with: several times the L2 cache
CHECKED_ROWS = 64
SAMPLES, WARM_UP_SAMPLES, REPLAYS = 11, 2, 4
RANK_MARGIN = 2e-4  # another expert counts as right where its score is this near to the k-th
WEIGHT_MARGIN = 1e-4
MULTIPROCESSORS = 132


class Problem:
    """Tokens and gates of one shape in `copies` copies on the GPU, all with equal numbers."""

    def __init__(self, experts, hidden, top_k, tokens, device="cuda"):
        self.experts, self.hidden, self.top_k, self.tokens = experts, hidden, top_k, tokens
        one = 2 * hidden * (experts + tokens)
        self.copies = max(2, -(-int(ROTATED_BYTES) // one)) if device == "cuda" else 1
        generator = torch.Generator(device=device).manual_seed(7)
        normal = lambda *shape: torch.randn(*shape, device=device, generator=generator)
        self.x = normal(tokens, hidden).bfloat16().expand(self.copies, -1, -1).contiguous()
        self.w = (0.02 * normal(experts, hidden)).bfloat16().expand(self.copies, -1, -1).contiguous()
        self.bias = 0.05 * normal(experts)
        self.weights = torch.empty(tokens, top_k, device=device)
        self.ids = torch.empty(tokens, top_k, dtype=torch.int32, device=device)

    def poison(self):
        self.weights.fill_(float("nan"))
        self.ids.fill_(-1)

    def wrong(self):
        """What is wrong with the outputs, "" when nothing is."""
        rows = torch.arange(self.tokens)[-CHECKED_ROWS:]
        if not bool(((self.ids >= 0) & (self.ids < self.experts)).all()):
            return "an id is no expert"
        ids, weights = self.ids.cpu()[rows].long(), self.weights.cpu()[rows].double()
        logits = self.x[0].cpu()[rows].double() @ self.w[0].cpu().double().T
        score = torch.nn.functional.softplus(logits).sqrt()
        rank = score + self.bias.cpu().double()
        least = rank.topk(self.top_k).values[:, -1:]
        if bool((rank.gather(1, ids) < least - RANK_MARGIN).any()):
            return "an expert is not among the k best"
        if any(len(set(row.tolist())) != self.top_k for row in ids):
            return "an expert is chosen twice"
        chosen = score.gather(1, ids)
        off = (weights - chosen / chosen.sum(-1, keepdim=True)).abs().max().item()
        return "" if off < WEIGHT_MARGIN else f"a weight is off by {off:.1e}"


def torch_route(x, w, bias, top_k):
    logits = torch.mm(x, w.t(), out_dtype=torch.float32) if x.is_cuda else x.float() @ w.float().t()
    score = torch.nn.functional.softplus(logits).sqrt()
    ids = torch.topk(score + bias, top_k).indices
    chosen = score.gather(1, ids)
    return chosen / chosen.sum(-1, keepdim=True), ids.int()


def torch_call(problem, route=torch_route):
    def call(i):
        weights, ids = route(problem.x[i], problem.w[i], problem.bias, problem.top_k)
        problem.weights.copy_(weights)
        problem.ids.copy_(ids)

    return call


def compiled_call(problem):
    return torch_call(problem, torch.compile(torch_route, dynamic=False))


@triton.jit(do_not_specialize=["tokens"])
def gemm_kernel(x, w, partial, tokens, experts: tl.constexpr, hidden: tl.constexpr, per_slice: tl.constexpr,
                TOKENS: tl.constexpr, EXPERTS: tl.constexpr, STEP: tl.constexpr):
    """partial[slice, token, expert]: the sum over one slice of K, in f32."""
    rows = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    columns = tl.program_id(1) * EXPERTS + tl.arange(0, EXPERTS)
    first = tl.program_id(2) * per_slice * STEP
    rows_wide = rows.to(tl.int64)
    total = tl.zeros((TOKENS, EXPERTS), tl.float32)
    for step in range(per_slice):
        k = first + step * STEP + tl.arange(0, STEP)
        a = tl.load(x + rows_wide[:, None] * hidden + k[None, :], (rows[:, None] < tokens) & (k[None, :] < hidden), 0.0)
        b = tl.load(w + columns[None, :] * hidden + k[:, None], (columns[None, :] < experts) & (k[:, None] < hidden), 0.0)
        total = tl.dot(a, b, total)
    at = (tl.program_id(2).to(tl.int64) * tokens + rows_wide[:, None]) * experts + columns[None, :]
    tl.store(partial + at, total, (rows[:, None] < tokens) & (columns[None, :] < experts))


@triton.jit(do_not_specialize=["tokens", "slices"])
def select_kernel(partial, bias, weights, ids, tokens, slices, experts: tl.constexpr, top_k: tl.constexpr,
                  EXPERTS: tl.constexpr, SLOTS: tl.constexpr):
    """One token: sums of the slices, scores, the k best, their weights."""
    row = tl.program_id(0).to(tl.int64)
    expert = tl.arange(0, EXPERTS)
    slot = tl.arange(0, SLOTS)
    logit = tl.zeros((EXPERTS,), tl.float32)
    for s in range(slices):
        logit += tl.load(partial + (s * tokens + row) * experts + expert, expert < experts, 0.0)
    score = tl.sqrt(tl.maximum(logit, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(logit))))
    rank = tl.where(expert < experts, score + tl.load(bias + expert, expert < experts, 0.0), -float("inf"))
    chosen = tl.zeros((SLOTS,), tl.float32)
    chosen_ids = tl.zeros((SLOTS,), tl.int32)
    for r in tl.static_range(top_k):
        best = tl.argmax(rank, 0, tie_break_left=True)
        chosen = tl.where(slot == r, tl.sum(tl.where(expert == best, score, 0.0), 0), chosen)
        chosen_ids = tl.where(slot == r, best, chosen_ids)
        rank = tl.where(expert == best, -float("inf"), rank)
    tl.store(weights + row * top_k + slot, chosen / tl.sum(chosen, 0), slot < top_k)
    tl.store(ids + row * top_k + slot, chosen_ids, slot < top_k)


def triton_call(problem):
    p = problem
    large = p.tokens >= 1024
    tile_tokens = 128 if large else min(64, max(16, triton.next_power_of_2(p.tokens)))
    tile_experts, step, warps, stages = (128, 64, 8, 4) if large else (32, 128, 4, 4)
    tiles = triton.cdiv(p.tokens, tile_tokens) * triton.cdiv(p.experts, tile_experts)
    steps = triton.cdiv(p.hidden, step)
    slices = min(max(1, 2 * MULTIPROCESSORS // tiles), steps // 2)
    per_slice = triton.cdiv(steps, slices)
    slices = triton.cdiv(steps, per_slice)
    grid = (triton.cdiv(p.tokens, tile_tokens), triton.cdiv(p.experts, tile_experts), slices)
    partial = torch.empty(slices, p.tokens, p.experts, device=p.x.device)
    padded_experts, padded_slots = triton.next_power_of_2(p.experts), triton.next_power_of_2(p.top_k)

    def call(i):
        gemm_kernel[grid](p.x[i], p.w[i], partial, p.tokens, p.experts, p.hidden, per_slice, tile_tokens, tile_experts,
                          step, num_warps=warps, num_stages=stages)
        select_kernel[(p.tokens,)](partial, p.bias, p.weights, p.ids, p.tokens, slices, p.experts, p.top_k,
                                   padded_experts, padded_slots, num_warps=4 if p.tokens < 1024 else 1)

    return call


def time_call(problem, call):
    """Microseconds of one call, cold: the median over samples of graph replays. Raises when the answer is wrong."""
    problem.poison()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call(0)
        call(1 % problem.copies)
    stream.synchronize()
    wanted = 40 if problem.tokens < 1024 else 10
    calls = -(-wanted // problem.copies) * problem.copies
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for i in range(calls):
            call(i % problem.copies)
    problem.poison()
    torch.cuda.synchronize()
    graph.replay()
    torch.cuda.synchronize()
    if wrong := problem.wrong():
        raise RuntimeError(wrong)
    times = []
    for _ in range(SAMPLES + WARM_UP_SAMPLES):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(REPLAYS):
            graph.replay()
        stop.record()
        torch.cuda.synchronize()
        times.append(1e3 * start.elapsed_time(stop) / (REPLAYS * calls))
    return sorted(times[WARM_UP_SAMPLES:])[SAMPLES // 2]


def flashinfer_state():
    """FlashInfer's router kernels for sm_90 score by sigmoid alone, so there is nothing of equal outputs to time."""
    try:
        import flashinfer
    except Exception as reason:  # a wheel built for another CUDA fails in many ways; all mean the same here
        return f"not timed: import fails ({reason})"
    return f"not timed: {flashinfer.__version__} has no sqrt(softplus) router for sm_90"
