"""What a run's texts say of the person and machine that made it, and neutral names in its place.

`Private.learn` is shown every text first, `Private.clean` rewrites them: a user's or host's name is known
from where it is unmistakable (a home folder, an address) and then replaced wherever it stands as a word.
Folders are replaced in paths alone, one by one, so that the same folder is the same name everywhere. Names of
files, of code and of what is installed stay. Lines stay lines, so that every place in a file is where it was.
"""

from __future__ import annotations

import builtins
import ipaddress
import json
import keyword
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Literal
from urllib.parse import quote

from inspector.pack.form import Form

Kind = Literal["user", "host", "folder", "secret", "address", "e-mail", "value", "device"]

_NEUTRAL: dict[Kind, str] = {
    "user": "user", "host": "host", "folder": "dir", "secret": "secret", "address": "address",
    "e-mail": "mail", "value": "value", "device": "GPU-00000000-0000-0000-0000-",
}  # fmt: skip

_SAME = re.compile(r"(?:user|host|dir|secret|address|mail|value)\d*(?:\.invalid)?")
"""What was neutral before: a run that is packed twice is packed once."""

_ANYBODYS = re.compile(
    "root|users?|admin|administrator|ubuntu|ec2-user|runner|jovyan|vscode|nobody|guest|default|shared|public|host"
    "|localhost|localdomain|home|me|you|someone|name|local|none|null|true|false|git|torch|triton|test",
    re.I,
)
"""Names of users and hosts that say nothing of anybody."""

_FOLDERS = re.compile(
    r"home|Users|root|usr|lib|lib64|bin|sbin|etc|opt|tmp|var|mnt|media|srv|data|proc|sys|dev|local|share|include|src"
    r"|source|\.?venv|envs?|conda|miniconda3|anaconda3|miniforge3|\.?cache|\.local|torch|triton|inductor|inspector"
    r"|capture|bootstrap|recorder|cuda.*|gcc.*|g\+\+.*|clang.*|llvm.*|RUN|runs?|logs?|trace|record|replay|inputs|baseline|profile|trials|compiled|eager|work|workspace|app|projects?"
    r"|code|repos?|\.\.?|[\d.]+|python\d.*|[a-z2-7]{2}|c[a-z2-7]{51}|[A-Z2-7]{52}|[0-9a-f]{64}|run_\d{4}_.*|model__.*"
)
"""Folders that say nothing of anybody; what is below them may."""

_INSTALLED = re.compile(
    r"site-packages|dist-packages|python\d\.\d+|torch_compile_debug|torchinductor(?:_.*)?"
)
"""What lies below is torch's, Python's or a package's, under the names that everybody has."""

_SYSTEM = ("usr", "lib", "lib64", "bin", "sbin", "proc", "sys", "dev")
_FILE = re.compile(
    r".+\.(?:py|pyc|pyi|so|json|jsonl|log|txt|cpp|cc|c|h|hpp|cu|cuh|gz|xz|zip|tar|pt|pth|bin|safetensors|ya?ml"
    r"|toml|cfg|ini|md|sh|csv|parquet|ipynb|html|cubin|o|a|best_config|ttir|ttgir|llir|ptx|source|exe|dll)"
)


_PART = r"(?:[^\s\"'`<>|:,;()\[\]{}\\/*?$=&!#^%~]|\\+u[0-9a-fA-F]{4})+"
_ABSOLUTE = Form(
    rf"/(?:(?<=~/){_PART}|(?:(?<![\w.\-/\\)\]}}>%]/)|(?<=-[ILB]/)|(?<=\\[ntr\"']/)|(?<=file:///)"
    rf"|(?=(?:home|Users)/))(?=[A-Za-z_.]){_PART}/{_PART})(?:/{_PART})*",
    "/",
)
_RELATIVE = Form(rf"(?<![\w.\-/\\])(?:{_PART}/)+{_PART}", "/")
_WINDOWS = Form(
    r"(?<![A-Za-z0-9])[A-Za-z]:(?P<gap>\\{1,8})(?:(?=[Uu]sers\\)|(?=[^\s\"'<>|:*?]+\.(?:py|json|log|so|dll|exe)\b))"
    r"(?P<rest>[^\s\\/:*?\"'<>|;,]+(?:(?P=gap)[^\s\\/:*?\"'<>|;,]+)*)",
    ":\\",
)
# "/home/Ann Lee/my model/a.py", # File: /home/Ann Lee/a.py:7 in forward
_QUOTED = Form(r'"(/(?:[^"\\/\n]+/)+[^"\\/\n]+\.\w+)\\*"|# File: (/[^\n:"]+):\d+ in ', '"/ File:')

_USER = Form(
    r"/(?:home|Users)/([^/\s\"'`<>|:,;()\[\]{}\\*?$=]+)|[A-Za-z]:\\+[Uu]sers\\+([^\\/\s\"':]+)|(?<=/)torchinductor_(\w+)"
    r"|\b(?:USER|LOGNAME|USERNAME)\\*[\"']?\s*[=:]\s*\\*[\"']?([A-Za-z][\w.-]+)",
    "/home/ /Users/ sers\\ torchinductor_ USER LOGNAME",
)
_HOST = Form(
    r"\b(?:HOSTNAME|HOST|MASTER_ADDR|SLURMD_NODENAME|hostname|host)\\*[\"']?\s*[=:]\s*\\*[\"']?([A-Za-z][\w.-]+)",
    "HOST ADDR NODENAME host",
)
_DOMAIN = r"(?:com|org|edu|gov|mil|dev|ai|cloud|internal|intranet|local|lan|corp|invalid|example|[a-z]{2})"
_MAIL = Form(
    rf"(?<![\w.@])([\w.+-]{{1,256}})@(?!self\.)([\w-]+(?:\.[\w-]+)*(?:\.(?:{_DOMAIN}|net|io))(?![\w(.@])(?::[\w./~-]+)?"
    r"|[\w-]+(?:\.[\w-]+)*:[\w./~-]+\.git\b)",
    "@",
)
_NAMED = Form(
    r"(?<![\w.@/-])(?:[\w-]+\.)+(?:com|org|edu|gov|internal|intranet|lan|corp)(?![\w(.])(?::\d+)?",
    ".com .org .edu .gov .int .lan .corp",
)
_URL = Form(r"(?<=[A-Za-z0-9+.-])://(?!/)([^\s\"'`<>\\)\]},;]+)", "://")
_FILE_SCHEME = re.compile(r"\bfile\Z")
_PUBLIC = re.compile(
    r"(?:(?:[\w-]+\.)*(?:pytorch\.org|python\.org|wikipedia\.org|nvidia\.com|apache\.org|arxiv\.org)"
    r"|meta-pytorch\.github\.io|github\.com/(?:pytorch|triton-lang|openai/triton)|docs\.google\.com/document"
    r"|(?:www\.)?w3\.org|json-schema\.org)(?:[/?#:]|$)"
)

_SECRET_NAME = (
    r"(?:[A-Z][A-Z0-9_]{0,256}_)?(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|APIKEY|AUTH)"
)
_IS = r"\\*[\"']?\]?\s*[=:]\s*(?:\\*[\"'])?"
_NEXT = r"\\*[\"']\s*,\s*\\*[\"']"
_ASSIGNED = Form(
    rf"(?P<before>(?<![A-Za-z0-9])(?:{_SECRET_NAME}{_IS}"
    rf"|(?<!-)--?[\w-]{{0,256}}(?:token|api-?key|secret|password|passwd)(?:[ \t]+|{_IS}|{_NEXT})))"
    r"(?P<value>[^\s\"'\\,;}\])<>]+)",
    "TOKEN KEY SECRET PASS CRED AUTH token apikey api-key secret passw",
)
_TOKEN = Form(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}"
    r"|xox[abp]-[\w-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,1024}\.[\w-]{8,}\.[\w-]*)"
    r"|(?<=Bearer )[\w.~+/-]{8,}=*",
    "hf_ ghp_ gho_ ghu_ ghs_ ghr_ github_pat glpat sk- xox AKIA ASIA AIza eyJ Bearer",
)
_PEM = Form(r"(?<=PRIVATE KEY-----)[A-Za-z0-9+/=\s\\]{16,}?(?=-----END)", "PRIVATE")
_CREDENTIAL = Form(r"://[^/\s\"'@:]*:([^/\s\"'@]{4,})@", "://")
_DISTINCT = re.compile(r"(?=.*\d)[\w+/=.~:-]{8,}|[A-Za-z0-9+/=_-]{20,}")
"""A secret that can be nothing else; another one is replaced only where it is assigned."""

_NUMBER_ADDRESS = re.compile(r"(\d(?<![\w.-].)\d{0,2}(?:\.\d{1,3}){3})(:\d+)?(?![\w.])")
"""What stands before is asked at a digit alone: `re` finds one far faster than it looks back everywhere."""
_DEVICE = Form(r"\b(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-([0-9a-f]{12})\b", "GPU- MIG-")
_FORMS = (
    _ABSOLUTE, _RELATIVE, _WINDOWS, _QUOTED, _USER, _HOST, _MAIL, _NAMED, _URL, _ASSIGNED, _TOKEN,
    _CREDENTIAL, _DEVICE,
)  # fmt: skip
_SUSPECT = tuple(dict.fromkeys(need for form in _FORMS for need in form.needs))
"""A line that one of the patterns fits has one of these, or dots between numbers."""
_NUMBERS = re.compile(r"\d\.\d+\.\d+\.\d")
_LONG_LINE = 100_000
_RUN = re.compile(r"([^\w/\\])\1{255,}|\\{4096,}")
"""Of backslashes, text within text within text twelve deep: each doubles them."""
_STEP = 128
"""Half of what `_RUN` takes at least."""
_LONGEST_NAME = 255
"""POSIX's NAME_MAX, which a user's folder and a machine's name keep to as well."""
_WORDS = frozenset((*keyword.kwlist, *dir(builtins)))


def _suspects(text: str) -> Counter[str]:
    """The lines of a text that a pattern may fit, in their order, and how often each stands there.

    Of millions most are the same or plain: only what the whole text has is looked for in each."""
    words = [word for word in _SUSPECT if word in text]
    numbers = bool(_NUMBERS.search(text))
    return Counter(
        {
            line: times
            for line, times in Counter(text.split("\n")).items()
            if any(word in line for word in words)
            or (numbers and line.count(".") > 2 and _NUMBERS.search(line))
        }
    )


def _parted(line: str) -> list[str]:
    """A line of megabytes between long runs of one character, which no name has and each pattern would try
    itself at."""
    if len(line) < _LONG_LINE or not _has_run(line):
        return [line]
    ends = [0, *(place for run in _RUN.finditer(line) for place in run.span()), len(line)]
    return [line[start:end] for start, end in pairwise(ends)]


def _has_run(line: str) -> bool:
    """Whether one character fills one of the line's steps, as it must where it stands twice as long."""
    return any(
        one == other and line.count(one, place, place + _STEP) == _STEP
        for place, (one, other) in zip(range(0, len(line), _STEP), pairwise(line[::_STEP]), strict=False)
    )


def _spoken(names: Mapping[str, str]) -> list[str]:
    """Those that may stand by themselves: a longer one is none that any system gives, and is replaced only
    where it stands in a path or an address."""
    return [name for name in names if len(name) <= _LONGEST_NAME]


class Private:
    """What was learned, and how often each kind was replaced."""

    def __init__(self) -> None:
        self.replaced: Counter[Kind] = Counter()
        self.in_code: set[str] = set()
        """Names of users or hosts that are words of the code, too: they stay there."""
        self._names: dict[Kind, dict[str, str]] = {kind: {} for kind in _NEUTRAL}
        self._spaced: set[str] = set()
        self._everywhere: set[str] = set()
        """Secrets that are replaced wherever they stand."""
        self._literal: re.Pattern[str] | None = None
        self._known: tuple[int, re.Pattern[str]] | None = None

    # -- learning

    def learn(self, text: str) -> None:
        """Take note of every name in a text that is unmistakable there."""
        for line in _suspects(text):
            for part in _parted(line):
                self._learn(part)

    def _learn(self, text: str) -> None:
        for match in _USER.finditer(text):
            self.learn_user(next(filter(None, match.groups())))
        for match in _HOST.finditer(text):
            self.learn_host(match[1])
        for match in _MAIL.finditer(text):
            self.learn_user(match[1])
            self.learn_host(match[2].partition(":")[0])
        for match in _ASSIGNED.finditer(text):
            self.learn_secret(match["value"])
        for pattern in (_TOKEN, _CREDENTIAL):
            for match in pattern.finditer(text):
                self.learn_secret(match[match.lastindex or 0])
        for match in _URL.finditer(text):
            if not _PUBLIC.match(match[1]):
                self.learn_host(re.split("[/:?#]", match[1].rpartition("@")[2])[0])
        for match in _NAMED.finditer(text):
            self.learn_host(match[0].partition(":")[0])
        for match in _QUOTED.finditer(text):
            self._learn_spaced((match[1] or match[2]).split("/")[1:-1])
        for match in _ABSOLUTE.finditer(text):
            self._parts(match[0].split("/")[1:])

    def learn_user(self, name: str) -> None:
        name = name.rstrip(".-_")
        if _telling(name):
            self._name("user", name)

    def learn_host(self, name: str) -> None:
        """A machine's name, of which the first part may also stand alone."""
        name = name.rstrip(".-")
        if name.lower() in _WORDS or _PUBLIC.match(name) or re.fullmatch(r"[\d.]+", name):
            return
        for word in dict.fromkeys((name, name.partition(".")[0])):
            if _telling(word) and (len(word) > 4 or re.search(r"[\d-]", word)):
                self._name("host", word)

    def learn_secret(self, value: str) -> None:
        if _DISTINCT.fullmatch(value.strip()) and not _SAME.fullmatch(value):
            self._everywhere.add(value.strip())

    def learn_code(self, text: str) -> None:
        """A text of generated code: which of the names that were learned are words of it."""
        for name in {*_spoken(self._names["user"]), *_spoken(self._names["host"])} - self.in_code:
            word = re.escape(name)
            use = rf"\b(?:def|class|import) +{word}\b|[\w)\]]\.{word}\b|\b{word} *[(=]"
            if name in _WORDS or (name in text and re.search(rf"(?m)^[^#\n\"'/]*?(?:{use})", text)):
                self.in_code.add(name)

    def _learn_spaced(self, parts: list[str]) -> None:
        for place, part in enumerate(parts):
            if " " in part and not re.search(r" -|[:;=]", part):
                if place == 1 and parts[0] in ("home", "Users"):
                    self.learn_user(part)
                self._spaced.add(part)

    def names(self) -> set[str]:
        """What is replaced wherever it stands."""
        return {*self._names["user"], *self._names["host"], *self._everywhere} - self.in_code

    # -- rewriting

    def clean(self, text: str) -> str:
        """The text with neutral names, as many lines as before."""
        text = self._secrets(text)
        replaced, clean = self.replaced, dict[str, str]()
        for line, times in _suspects(text).items():
            self.replaced = Counter()
            clean[line] = "".join(map(self._line, _parted(line)))
            replaced.update({kind: number * times for kind, number in self.replaced.items()})
        self.replaced = replaced
        return self._words("\n".join(clean.get(line, line) for line in text.split("\n")))

    def _line(self, text: str) -> str:
        text = _ASSIGNED.sub(lambda match: match["before"] + self._use("secret", match["value"]), text)
        text = _URL.sub(self._url, text)
        text = _MAIL.sub(self._mail, text)
        text = _NAMED.sub(self._named, text)
        if "/" in text:
            for part in sorted(self._spaced, key=len, reverse=True):
                text = text.replace(f"/{part}/", f"/{self._folder(part)}/")
            text = _ABSOLUTE.sub(lambda match: self._joined(match[0], "/"), text)
            if self._relatives().search(text):
                text = _RELATIVE.sub(self._relative, text)
        text = _WINDOWS.sub(self._windows, text)
        text = _NUMBER_ADDRESS.sub(self._number_address, text)
        return _DEVICE.sub(self._device, text)

    def value(self, value: str) -> str:
        """A neutral text for the value of an environment variable."""
        return self._use("value", value)

    def _name(self, kind: Kind, private: str) -> str:
        names = self._names[kind]
        if private not in names:
            number = len(names) + 1
            first = kind in ("user", "host") and number == 1
            names[private] = _NEUTRAL[kind] + (
                f"{number:012}" if kind == "device" else "" if first else str(number)
            )
        return names[private]

    def _use(self, kind: Kind, private: str) -> str:
        if _SAME.fullmatch(private):
            return private
        self.replaced[kind] += 1
        return self._name(kind, private)

    def _folder(self, part: str) -> str:
        if part in self._names["user"]:
            return self._use("user", part)
        if _FOLDERS.fullmatch(part) or _SAME.fullmatch(part):
            return part
        return self._use("folder", part)

    def _parts(self, parts: list[str]) -> list[str]:
        """A path's parts with neutral folders."""
        if parts[0] in _SYSTEM and parts[:2] != ["usr", "local"]:
            return parts
        neutral: list[str] = []
        for place, part in enumerate(parts):
            if _INSTALLED.fullmatch(part):
                return [*neutral, *parts[place:]]
            file = place == len(parts) - 1 and (_FILE.fullmatch(part) or parts[place - 1] == "bin")
            neutral.append(part if file else self._folder(part))
        return neutral

    def _joined(self, path: str, gap: str) -> str:
        head, *parts = path.split(gap)
        return gap.join([head, *self._parts(parts)])

    def _windows(self, match: re.Match[str]) -> str:
        return self._joined(match[0], match["gap"])

    def _relative(self, match: re.Match[str]) -> str:
        """A path's last parts, as guards name files: where it has a folder that was replaced elsewhere."""
        parts = match[0].split("/")
        known = self._names["folder"]
        if (
            not _FILE.fullmatch(parts[-1])
            or _INSTALLED.fullmatch(parts[0])
            or parts[0] in ("torch", "triton")
        ):
            return match[0]
        return "/".join(
            [self._use("folder", part) if part in known else part for part in parts[:-1]] + parts[-1:]
        )

    def _secrets(self, text: str) -> str:
        if self._everywhere:
            if self._literal is None:
                secrets = sorted(
                    {way for secret in self._everywhere for way in _written(secret)},
                    key=lambda way: (-len(way), way),
                )
                self._literal = re.compile("|".join(map(re.escape, secrets)))
            text = self._literal.sub(lambda match: self._use("secret", match[0]), text)
        return _PEM.sub(
            lambda match: re.sub(
                r"(\\+n|\s)|[A-Za-z0-9+/=]+", lambda part: part[1] or self._use("secret", part[0]), match[0]
            ),
            text,
        )

    def _relatives(self) -> re.Pattern[str]:
        """What a path has that begins below one of the folders that are replaced."""
        folders = self._names["folder"]
        if self._known is None or self._known[0] != len(folders):
            parts = "|".join(map(re.escape, folders)) or "(?!)"
            self._known = len(folders), re.compile(rf"(?:{parts})/")
        return self._known[1]

    def _url(self, match: re.Match[str]) -> str:
        before = match.string[max(match.start() - 5, 0) : match.start()]
        if _PUBLIC.match(match[1]) or _FILE_SCHEME.search(before) or match[1].endswith(".invalid"):
            return match[0]
        return f"://{self._use('address', match[1])}.invalid"

    def _mail(self, match: re.Match[str]) -> str:
        return match[0] if match[2] == "host.invalid" else self._use("e-mail", match[0]) + "@host.invalid"

    def _named(self, match: re.Match[str]) -> str:
        return match[0] if _PUBLIC.match(match[0]) else self._use("address", match[0]) + ".invalid"

    def _words(self, text: str) -> str:
        for kind in ("user", "host"):
            names = _spoken(self._names[kind])
            ways = {way: name for name in names for way in _written(name) if name not in self.in_code}
            # In a path, an address or a temporary folder's name it is nobody's word of code.
            held = {name: name for name in names if name in self.in_code}
            for known, before, after in (
                (ways, r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])"),
                (held, r"(?:(?<=torchinductor_)|(?<=@))", r"(?![A-Za-z0-9])"),
            ):
                if known:
                    words = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
                    text = re.sub(
                        f"{before}(?:{words}){after}",
                        lambda match, known=known, kind=kind: self._use(kind, known[match[0]]),  # type: ignore[misc]
                        text,
                    )
        return text

    def _number_address(self, match: re.Match[str]) -> str:
        try:
            address = ipaddress.ip_address(match[1])
        except ValueError:
            return match[0]
        if address.is_loopback or address.is_unspecified or not (address.is_private or match[2]):
            return match[0]
        return self._use("address", match[1]) + ".invalid" + (match[2] or "")

    def _device(self, match: re.Match[str]) -> str:
        return match[0] if match[0].startswith(_NEUTRAL["device"]) else self._use("device", match[0])


def _telling(name: str) -> bool:
    return len(name) > 1 and not _ANYBODYS.fullmatch(name) and not _SAME.fullmatch(name)


def _written(name: str) -> Iterable[str]:
    """A name as it stands in text, in JSON, in JSON within JSON, and in a URL."""
    once = json.dumps(name)[1:-1]
    return {name, once, json.dumps(once)[1:-1], quote(name, safe="")}
