"""The words of pools, of their members, of known rates and groups: every setting and what it accepts. Data alone.

A file found in the working directory may set none of them: somebody else's checkout must not reroute signed traffic.
"""

from __future__ import annotations

from typing import Final

from cloudretry.config.vocabulary import MATCH_KEYS, Form, Setting, Vocabulary, count, duration, number
from cloudretry.core.proxy_url import ACCEPTED_URL

__all__ = ["GROUP", "MEMBER", "MOST_TRIES", "POOL", "POOLS", "POOL_NAME", "RATE", "USUAL_TRIES", "WAYS"]

POOLS: Final = "pools"
"""The table of all pools."""
POOL_NAME: Final = "letters, digits, _ and -, at most 64, such as [pools.corp]"
WAYS: Final = ("url", "connect_to", "direct")
"""The kinds of member."""
USUAL_TRIES: Final = 7
MOST_TRIES: Final = 100


def _word(noun: str, accepted: str, meaning: str) -> Setting:
    return Setting(form=Form.WORD, noun=noun, accepted=accepted, meaning=meaning)


def _flag(meaning: str) -> Setting:
    return Setting(form=Form.FLAG, noun="a switch", accepted="true, false", meaning=meaning)


def _time(meaning: str) -> Setting:
    return duration(meaning, above_zero=True, in_directory=False)


POOL: Final = Vocabulary(
    {
        "members": Setting(
            form=Form.LIST,
            noun="a list of members",
            accepted=f"a list of at least one proxy's URL or table with one of {', '.join(WAYS)}",
            meaning="The ways out.",
        ),
        "algorithm": _word(
            "an algorithm", "least_connections, round_robin, least_response_time, hash", "How a member is chosen for a call."
        ),
        "retries": count(
            "a number of retries",
            0,
            MOST_TRIES,
            f"How many further members a call tries when a connection can't be established; {USUAL_TRIES} is plenty.",
        ),
        "connect_timeout": _time("How long one connection may take to be established."),
        "exhausted_answer": _word(
            "an answer",
            '"500", "connection_error"',
            "What the caller gets when every member was tried: a status 500 that names them, or the original error.",
        ),
        "when_unavailable": _word("a way to go on", "wait, fail", "What a call does when no member is available at first."),
        "bypass": Setting(
            form=Form.LIST,
            noun="a list of destinations",
            accepted='a list of hosts, domains such as ".example.com", addresses and networks such as "10.0.0.0/8"',
            meaning="Destinations that skip the pool, written as in NO_PROXY; besides NO_PROXY itself, loopback and metadata.",
        ),
        "ca_bundle": _word(
            "a file of certificates",
            "the path of a PEM file, absolute or from ~",
            "Certificates to trust in addition, for proxies that inspect TLS.",
        ),
        "cooldown.initial": _time("How long a member is withheld at first."),
        "cooldown.factor": number("a factor", "a number from 1 to 100", "How much longer each time in a row."),
        "cooldown.max": _time("How long at most."),
        "cooldown.jitter": number(
            "a share", "a number from 0 to 1", "Spreads it by this share, so that members don't come back together."
        ),
        "cooldown.failures": count("a number of failures", 1, 100, "Failures in a row that cool a member."),
        "cooldown.timeouts": count("a number of timeouts", 1, 100, "Timeouts in a row that cool a member."),
        "cooldown.destinations": count(
            "a number of destinations", 1, 100, "Destinations that must fail through a member, without success, to cool it."
        ),
        "cooldown.auth_recheck": _time("When credentials that a proxy rejected are tried again."),
        "probe.kind": _word(
            "a kind of probe", "request, https_get", "What judges recovery: the first real request, or an exchange with url."
        ),
        "probe.url": _word(
            "the URL of an exchange", "http:// or https:// with a host, without credentials", "What an https_get asks for."
        ),
        "probe.concurrency": count(
            "a number of trials", 1, 100, "Requests that a recovering member may have admitted and unfinished."
        ),
        "probe.successes": count("a number of trials", 1, 100, "Trials in a row that must succeed."),
        "probe.lease": _time("When a trial that nobody ended no longer blocks the next one."),
        "probe.timeout": _time("How long an https_get may take."),
        "slow.first_byte": _time("Slow is an answer whose first byte takes longer."),
        "slow.per_mib": _time("Slow is a body that takes longer for each MiB."),
        "slow.threshold": count("a number of answers", 1, 1000, "Slow answers in a row that cool a member; none if not set."),
    }
)

MEMBER: Final = Vocabulary(
    {
        "url": _word("the URL of a proxy", f"{ACCEPTED_URL}, credentials as ${{env:NAME}} or ${{file:PATH}}", "A proxy."),
        "connect_to": _word(
            "an address with a port",
            'an IP address with a port such as "10.0.0.1:443" or "[fd00::1]:443"',
            "Where to connect in the place of the destination's own address; host name and signature stay.",
        ),
        "direct": Setting(form=Form.FLAG, noun="a switch", accepted="true", meaning="No proxy, whatever the environment says."),
        "name": _word(
            "the name of a member", "letters, digits and . _ : # [ ] -, at most 64", "What is shown; host and port if not set."
        ),
        "weight": count("a weight", 1, 1000, "How much more of the work than a member of weight 1."),
        "backup": _flag("Whether it is used only while no other member is available."),
        "disabled": _flag("Whether it is taken out; removing this brings it back by a probe."),
    }
)

_MATCH: Final = Setting(
    form=Form.TABLE,
    noun="a match",
    accepted=f"a table with at least one of {', '.join(MATCH_KEYS)}",
    meaning="The calls that it holds for.",
)

RATE: Final = Vocabulary(
    {
        "match": _MATCH,
        "rate": number("a rate", "a number of calls per second above 0, at most 1000000", "What the provider grants."),
        "burst": number(
            "a burst",
            "a number of calls from 1 to 1000000",
            "What it takes at once after a rest; one second's worth if not set.",
        ),
    }
)

GROUP: Final = Vocabulary(
    {
        "match": _MATCH,
        "name": _word(
            "the name of a group",
            "letters, digits, spaces and . _ : / -, at most 128; {operation} stands for the operation",
            "What they are shown as; with {operation} each operation has a quota of its own.",
        ),
        "everywhere": _flag("Whether the calls of all regions are metered together."),
    }
)
