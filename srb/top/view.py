"""The view of `srb top`: lines of text of two readings. Pure; no control character of a server's answer gets into a line."""

from collections.abc import Iterator, Sequence

from srb.host.memory import size_text
from srb.top.source import ListedRequest, Reading

_BAR = 24  # characters, as of `srb bench`
_ID = 12  # characters of a request's id: enough to find it in the log


def view(url: str, before: Reading | None, now: Reading) -> list[str]:
    """Return the lines; rates are those between the two readings."""
    lines = [f"SRB {now.version} at {url}: {now.state}", ""]
    lines += _numbers(before, now) if "kv_cells" in now.numbers else [_without_numbers(now)]
    lines.append("")
    if now.requests is None:
        lines.append("The requests are not listed: no engine is ready, or the key may not list them.")
    else:
        lines += _requests(now.requests)
    return [plain(line) for line in lines]


def plain(text: str) -> str:
    """Return a text without characters that a terminal would obey, or that would turn its direction."""
    return "".join(sign if sign.isprintable() else "�" for sign in text)


def _without_numbers(now: Reading) -> str:
    if now.numbers:
        return "The engine tells no numbers now."
    return "The server tells no numbers: the setting metrics is off, or it is another server's /metrics."


def _numbers(before: Reading | None, now: Reading) -> Iterator[str]:
    of = now.numbers.get

    def count(name: str) -> str:
        return f"{of(name, 0):,.0f}"

    def rate(name: str) -> str:
        """Return a counter's growth in a second; a restarted engine counts from zero."""
        if before is None or name not in before.numbers or now.at <= before.at:
            return "–"
        grown = of(name, 0.0) - before.numbers[name]
        return f"{(grown if grown >= 0 else of(name, 0.0)) / (now.at - before.at):,.1f}"

    yield (
        f"requests  {count('requests_processing'):>9} running {count('requests_deferred'):>9} waiting "
        f"{count('requests_resting'):>9} resting  {count('requests_total')} since the start"
    )
    yield (
        f"branches  {count('branches_running'):>9} running {count('branches_waiting'):>9} waiting "
        f"{count('branches_room'):>9} more have room"
    )
    yield (
        f"tokens    {rate('tokens_predicted_total'):>9} a second written, {rate('prompt_tokens_total')} a second of prompts "
        "computed"
    )
    used, cells = of("kv_cells_used", 0.0), of("kv_cells", 0.0)
    part = min(1.0, used / cells) if cells else 0.0
    bar = "█" * round(_BAR * part)
    yield f"cells     {used:>9,.0f} of {cells:,.0f} in use  {bar:·<{_BAR}} {part:.0%}"
    known, read = of("prompt_tokens_cached_total", 0.0), of("prompt_tokens_total", 0.0)
    reused = f", {known / (known + read):.0%} of all prompts' tokens were there" if known + read else ""
    stored = of("stored_bytes", 0.0)
    yield (
        f"cache     {count('tree_tokens_resident'):>9} tokens in cells, {count('tree_tokens_parked')} parked "
        f"({size_text(of('tree_parked_bytes', 0.0))}){reused}"
    )
    if stored or of("stored_hits_total", 0.0):
        yield (
            f"disk      {size_text(stored):>9} in {count('stored_texts')} files; {count('stored_hits_total')} texts came "
            f"back: {count('stored_tokens_read_total')} tokens, about {count('stored_seconds_saved_total')} s of computing"
        )
    if "replicas_ready" in now.numbers:
        yield f"replicas  {count('replicas_ready'):>9} ready"


def _requests(requests: Sequence[ListedRequest]) -> Iterator[str]:
    if not requests:
        yield "No request of yours runs or rests."
        return
    yield f"{'your request':<{_ID}}  {'state':<8} {'age':>8} {'prompt':>8}   {'branches':<22} {'written':>9}"
    for each in sorted(requests, key=lambda one: -one.age):
        counts = ", ".join(f"{count} {state}" for state, count in sorted(each.branches.items(), reverse=True))
        yield (
            f"{each.id[:_ID]:<{_ID}}  {each.state:<8} {each.age:>6.0f} s {each.prompt_tokens:>8,}   {counts:<22} "
            f"{each.written:>9,}"
        )
