"""Targets behind HTTP, against a server that misbehaves by script: nothing is lost, nothing counted twice."""

import itertools
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

import dowse
from dowse.core.outcome import End
from dowse.core.result import Result
from dowse.core.target import Delivery
from dowse.errors import InputError
from dowse.targets import resolve_target
from dowse.targets.http.pacing import TargetError
from dowse.targets.http.target import HttpTarget
from dowse.targets.options import HttpOptions
from tests.support import Tanh, attack_anyway, pictures
from tests.v2server import V2Server, serving

NET = Tanh(1)
X = pictures(3, dtype=torch.float32)
BUDGET = 80

TRANSIENT = ["500", "502", "503", "504", "429", "429:7", "408", "drop", "cut"]


def as_served(x: Tensor) -> Tensor:
    """What the server answers in FP32: scores (n, K) of points (n, C, H, W), in process."""
    with torch.no_grad():
        return NET(x.float().double())


Y = as_served(X).argmax(1)


def connect(server: V2Server, sleep: Callable[[float], object] = lambda _: None, **options: Any) -> HttpTarget:
    """A target that never really waits, and gives a busy machine all the time it needs to answer."""
    return HttpTarget(server.url, HttpOptions(**{"timeout": 600, **options}), sleep=sleep)


def attack(target: Any, **more: Any) -> Result:
    return dowse.attack(target, X, Y, **{"method": "rgf", "q": 10, "budget": BUDGET, **more})


EXPECTED = attack(as_served)


def same_outcome(got: Result, expected: Result = EXPECTED) -> bool:
    return (
        got.end == expected.end
        and torch.equal(got.queries, expected.queries)
        and torch.equal(got.adversarial, expected.adversarial)
    )


@pytest.mark.parametrize("takes_binary", [True, False])
@pytest.mark.parametrize("rows", [1, 7, None])
def test_an_attack_through_http_is_the_attack_in_process(takes_binary: bool, rows: int | None) -> None:
    with serving(NET, takes_binary=takes_binary) as server:
        result = attack(connect(server, rows=rows))
        assert same_outcome(result)
        assert int(result.queries.sum()) == server.rows_answered
        assert int(result.sent.sum()) == server.rows_seen
        assert all(request.rows <= (rows or 64) for request in server.seen)
        refused = [request for request in server.seen if request.fault == "refused"]
        assert len(refused) == (0 if takes_binary else 1), "only the first request tries what the server refuses"
        assert all(request.binary is takes_binary for request in server.seen if request.fault == "ok")
        assert int((result.sent - result.queries).sum()) == sum(request.rows for request in refused)


@pytest.mark.parametrize("status", [400, 406, 415, 422, 501])
def test_a_refused_encoding_is_found_out_by_trying(status: int) -> None:
    with serving(NET, takes_binary=False, refuses_binary_with=status) as server:
        delivery = connect(server, rows=1).deliver(X)
        assert delivery.answered.all()
        assert delivery.sent.tolist() == [2, 1, 1]
        assert [request.binary for request in server.seen] == [True, False, False, False]


@pytest.mark.parametrize(
    ("script", "takes_binary", "sent", "encodings"),
    [
        (["500"], True, [2, 1, 1], [True, False, True, True]),
        (["500", "500"], True, [3, 1, 1], [True, False, True, True, True]),
        (["503", "500"], True, [3, 1, 1], [True, True, False, True, True]),
        ([], False, [2, 2, 1], [True, False, True, False, False]),
    ],
)
def test_a_500_tells_about_the_encoding_only_when_it_comes_again(
    script: list[str], takes_binary: bool, sent: list[int], encodings: list[bool]
) -> None:
    """In passing it settles nothing: the next rows try bytes again. A server that means it is asked twice."""
    with serving(NET, script, takes_binary=takes_binary, refuses_binary_with=500) as server:
        target = connect(server, rows=1)
        delivery = target.deliver(X)
        assert delivery.answered.all()
        assert delivery.sent.tolist() == sent
        target(X)
        assert [request.binary for request in server.seen] == encodings + [takes_binary] * 3


@pytest.mark.parametrize("binary", [True, False])
def test_an_encoding_that_is_told_is_not_tried_out(binary: bool) -> None:
    with serving(NET, takes_binary=False) as server:
        delivery = connect(server, binary=binary).deliver(X)
        assert [request.binary for request in server.seen] == [binary]
        assert bool(delivery.answered.all()) is not binary
        if binary:
            assert "422" in str(delivery.cause)


def test_a_spec_string_is_enough_and_its_options_are_not_sent() -> None:
    with serving(NET, version="2") as server:
        result = attack(f"{server.url}?rows=5#connections=2")
        assert same_outcome(result)
        assert max(request.rows for request in server.seen) == 5
        assert server.other_requests == ["/v2/models/net/versions/2"]
        assert same_outcome(attack(resolve_target(server.url, rows=3)))
        with pytest.raises(InputError, match=r"no option 'layuot'.*layout"):
            resolve_target(f"{server.url}?layuot=NHWC")


def test_a_defence_stands_in_front() -> None:
    with serving(NET) as server:
        result = attack(f"jpeg:75+{server.url}")
        assert int(result.sent.sum()) == server.rows_seen
        assert int(result.queries.sum()) == server.rows_answered


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(["ok", *TRANSIENT]), max_size=30),
    st.integers(1, 12),
    st.integers(1, 4),
    st.sampled_from([None, True, False]),
)
def test_passing_faults_cost_only_what_is_sent_again(
    script: list[str], rows: int, connections: int, binary: bool | None
) -> None:
    with serving(NET, script, takes_binary=binary is not False) as server:
        target = connect(server, rows=rows, connections=connections, binary=binary, retries=len(script))
        result = attack(target)
        target.close()
        assert same_outcome(result)
        assert int(result.sent.sum()) == server.rows_seen
        assert int(result.queries.sum()) == server.rows_answered


def test_rows_of_a_connection_that_breaks_before_they_are_read_count_as_sent() -> None:
    with serving(NET, ["ok", "drop-unread", "ok", "drop-unread"]) as server:
        result = attack(connect(server, rows=1, connections=1))
        assert same_outcome(result)
        assert int(result.sent.sum()) == server.rows_seen == int(result.queries.sum()) + 2


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("malformed", "did not answer with JSON"),
        ("error", "out of memory"),
        ("wrong-shape", r"answered 1 rows with scores of shape \(4,\)"),
        ("wrong-rows", r"answered 1 rows with scores of shape \(2, 4\)"),
        ("wrong-classes", "answered with 5 classes, it said or had 4"),
        ("400", "HTTP 400 Bad Request: as scripted"),
        ("401", "token_env=NAME"),
        ("404", "is the model's name right"),
        ("413", "rows="),
        ("301", "use that URL"),
    ],
)
def test_what_does_not_pass_ends_one_image_and_not_the_others(fault: str, words: str) -> None:
    with serving(NET, ["ok", fault]) as server:
        result = attack(connect(server, rows=1, connections=1))
        assert result.end[1] is End.TARGET_FAILED
        assert [o.end for o in (result.outcomes[0], result.outcomes[2])] == [EXPECTED.end[0], EXPECTED.end[2]]
        cause = result.outcomes[1].cause
        assert isinstance(cause, TargetError)
        assert server.url in str(cause)
        with pytest.raises(TargetError, match=words):
            raise cause
        assert result.queries.tolist() == [int(EXPECTED.queries[0]), 0, int(EXPECTED.queries[2])]
        assert int(result.sent.sum()) == server.rows_seen
        assert int(result.queries.sum()) == server.rows_answered


@pytest.mark.parametrize("word", ["nan", "null"])
@pytest.mark.parametrize("binary", [True, False])
def test_scores_that_are_not_numbers_were_answered_and_end_their_image(word: str, binary: bool) -> None:
    with serving(NET, ["ok", word]) as server:
        result = attack(connect(server, rows=1, connections=1, binary=binary))
        assert result.end == [EXPECTED.end[0], End.NONFINITE, EXPECTED.end[2]]
        assert int(result.queries[1]) == 1
        assert int(result.queries.sum()) == server.rows_answered


def test_a_failed_request_leaves_the_rows_of_others_answered() -> None:
    with serving(NET, ["ok", "400"]) as server:
        delivery = connect(server, rows=1, connections=1).deliver(X)
        assert delivery.answered.tolist() == [True, False, True]
        assert delivery.sent.tolist() == [1, 1, 1]
        assert delivery.scores is not None
        torch.testing.assert_close(delivery.scores[[0, 2]], as_served(X[[0, 2]]), rtol=0, atol=0)
        server.words = iter(["400"])
        target = connect(server, rows=1, binary=True)
        with pytest.raises(TargetError, match="400"):
            target(X)


def test_a_server_that_dies_ends_the_run_with_all_it_answered() -> None:
    waits: list[float] = []
    with serving(NET, [*["ok"] * 20, "die"]) as server:
        result = attack_anyway(
            connect(server, waits.append, rows=4, connections=2), X.repeat(4, 1, 1, 1), Y.repeat(4),
            method="rgf", budget=BUDGET, concurrency=3,
        )  # fmt: skip
    assert End.TARGET_FAILED in result.end
    assert int(result.queries.sum()) == server.rows_answered
    assert int(result.sent.sum()) == server.rows_seen
    failed = [outcome for outcome in result.outcomes if outcome.end is End.TARGET_FAILED]
    assert all(server.url in str(outcome.cause) for outcome in failed)
    assert any("after 6 attempts" in str(outcome.cause) for outcome in failed)
    assert len(waits) <= 5 * 2 + 5, "once it is known to be silent, nobody waits for it again"


def test_a_server_that_comes_back_is_tried_in_full_again() -> None:
    with serving(NET, ["ok", *["503"] * 3, "ok", "503", "ok"]) as server:
        target = connect(server, retries=2)
        for expected_sent, answered in ((1, True), (3, False), (1, True), (2, True)):
            delivery = target.deliver(X[:1])
            assert (int(delivery.sent[0]), bool(delivery.answered[0])) == (expected_sent, answered)
        server.words = iter(["503"] * 5)
        assert [int(target.deliver(X[:1]).sent[0]) for _ in range(3)] == [3, 1, 1], "silent: one try a request"


def test_nothing_there_is_an_error_before_any_query() -> None:
    with serving(NET) as server:
        url = server.url
    waits: list[float] = []
    with pytest.raises(InputError, match=r"did not answer after 3 attempts.*no connection.*is the server up"):
        HttpTarget(url, sleep=waits.append)
    assert len(waits) == 2


def test_rows_that_never_left_are_not_sent() -> None:
    with serving(NET) as server:
        target = connect(server, retries=3)
        server.die()
        target.deliver(X)  # over the connection that the metadata came by
        refused = target.deliver(X)
    assert refused.sent.tolist() == [0, 0, 0]
    assert not refused.answered.any()
    assert "no connection" in str(refused.cause)


def test_a_server_that_never_answers_does_not_hold_the_run() -> None:
    with serving(NET, ["stall"] * 100) as server:
        target = connect(server, timeout=0.05, retries=2)
        delivery = target.deliver(X)
        assert delivery.sent.tolist() == [3, 3, 3]
        assert not delivery.answered.any()
        assert "no answer within 0.05 s" in str(delivery.cause)
        assert target.deliver(X).sent.tolist() == [1, 1, 1]
        target.close()


def test_an_answer_that_trickles_is_a_time_out() -> None:
    now = [0.0]

    def trickle() -> Any:
        for _ in range(100):
            now[0] += 1
            yield b" "

    def carry(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"inputs": [{"name": "a", "datatype": "FP32", "shape": [-1, 3, 4, 4]}]})
        return httpx.Response(200, content=trickle())

    target = HttpTarget(
        "http://host/v2/models/net",
        HttpOptions(retries=0, timeout=5),
        transport=httpx.MockTransport(carry),
        clock=lambda: now[0],
    )
    delivery = target.deliver(X)
    assert "no answer within 5 s" in str(delivery.cause)
    assert now[0] == 6


def test_timeouts_between_answers_are_retried_and_counted() -> None:
    """A transport that loses some answers on the way: the server answered, the client never heard."""
    lost = {2, 5}

    class Lossy(httpx.BaseTransport):
        def __init__(self) -> None:
            self.inner, self.posts = httpx.HTTPTransport(), 0

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            response = self.inner.handle_request(request)
            if request.method == "POST":
                self.posts += 1
                if self.posts in lost:
                    response.read()
                    raise httpx.ReadTimeout("lost", request=request)
            return response

        def close(self) -> None:
            self.inner.close()

    with serving(NET) as server:
        target = HttpTarget(
            server.url, HttpOptions(connections=1, rows=1, timeout=600), transport=Lossy(), sleep=lambda _: None
        )
        result = attack(target)
        target.close()
        assert same_outcome(result)
        assert int(result.sent.sum()) == server.rows_seen == int(result.queries.sum()) + len(lost)


def test_retry_after_is_honoured_by_all_and_given_up_when_too_long() -> None:
    waits: list[float] = []
    with serving(NET, ["ok", "429:7", "ok", "ok", "429:3600"]) as server:
        target = connect(server, waits.append, rows=1, connections=1)
        assert target.deliver(X).sent.tolist() == [1, 2, 1]
        assert max(waits) == pytest.approx(7, abs=0.5)
        delivery = target.deliver(X)
        assert delivery.answered.tolist() == [False, True, True]
        assert "HTTP 429" in str(delivery.cause)


def test_waits_between_attempts_double() -> None:
    waits: list[float] = []
    with serving(NET, ["503"] * 4) as server:
        target = connect(server, waits.append, rows=3)
        assert target.deliver(X).sent.tolist() == [5, 5, 5]
    assert [0.25 * 2**i <= wait <= 0.5 * 2**i for i, wait in enumerate(waits)] == [True] * 4


def test_at_a_rate_no_request_is_more_than_a_second() -> None:
    with serving(NET) as server:
        for rate, rows in ((2.5, 2), (0.1, 1), (1e6, 64)):
            target = connect(server, rate=rate, connections=1)
            assert target.rows_per_call == rows
            target.close()


def test_the_rate_holds_with_retries_included() -> None:
    now, starts = [0.0], []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with serving(NET, ["ok", "503"], before_answer=lambda: starts.append(now[0])) as server:
        options = HttpOptions(rate=0.1, rows=3, connections=1)
        target = HttpTarget(server.url, options, clock=lambda: now[0], sleep=sleep)
        for _ in range(4):
            target(X)
        target.close()
        assert server.rows_seen == 15
    assert len(starts) == 4
    waits = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert waits == pytest.approx([60, 30, 30]), "three rows take 30 s, and those that were refused once take as long"


def test_a_server_that_asks_for_time_is_given_it_by_every_request() -> None:
    now, starts = [0.0], []

    def sleep(seconds: float) -> None:
        now[0] += 0.0 if seconds >= 7 else seconds  # the wait of the refused one itself is skipped

    with serving(NET, ["ok", "429:7"], before_answer=lambda: starts.append(now[0])) as server:
        waits: list[float] = []
        target = HttpTarget(
            server.url, HttpOptions(connections=1), clock=lambda: now[0], sleep=lambda s: (waits.append(s), sleep(s))
        )
        target(X)
        target(X)
        target.close()
    assert [wait for wait in waits if wait >= 7] == [7, 7], "once for itself, and once more as everybody's"


def test_requests_are_under_way_together() -> None:
    """Four requests wait for one another in the server: none would be answered if they came one by one."""
    together = threading.Barrier(4)
    armed = threading.Event()

    def meet() -> None:
        if armed.is_set():
            together.wait(timeout=300)

    with serving(NET, before_answer=meet) as server:
        target = connect(server, rows=1, connections=4)
        target(X[:1])
        armed.set()
        points = pictures(8, seed=3, dtype=torch.float32)
        torch.testing.assert_close(target(points), as_served(points), rtol=0, atol=0)
        target.close()


@pytest.mark.parametrize("takes_binary", [True, False])
@pytest.mark.parametrize(
    ("served", "options"),
    [
        ({"layout": "NHWC", "shape": (-1, 4, 4, 3)}, {}),
        ({"layout": "NHWC", "shape": (-1, -1, -1, -1)}, {"layout": "NHWC"}),
        ({"datatype": "UINT8", "scale": 255}, {}),
        ({"datatype": "UINT8", "scale": 255, "layout": "NHWC", "shape": (-1, 4, 4, 3)}, {}),
        ({"scale": 255}, {"scale": 255.0}),
        ({"datatype": "FP64"}, {}),
        ({"shape": (1, 3, 4, 4)}, {}),
        ({"outputs": (("scores", (-1, 4)), ("features", (-1, 9)))}, {}),
        ({"outputs": (("features", (-1, 9)), ("scores", (-1, 4)))}, {"output": "scores"}),
        ({"metadata_status": 404}, {"input": "image", "layout": "NCHW"}),
    ],
)
def test_images_arrive_as_the_model_wants_them(
    served: dict[str, Any], options: dict[str, Any], takes_binary: bool
) -> None:
    levels = torch.randint(0, 256, (5, 3, 4, 4), generator=torch.Generator().manual_seed(0))
    points = levels.double() / 255
    with serving(NET, takes_binary=takes_binary, **served) as server:
        target = connect(server, **options)
        scores = target(points)
        target.close()
        torch.testing.assert_close(scores, NET(points).detach(), rtol=0, atol=2e-6)
        if served.get("datatype") == "UINT8":
            arrived = torch.from_numpy(server.seen[-1].array.copy()).long()
            expected = levels.permute(0, 2, 3, 1) if served.get("layout") == "NHWC" else levels
            assert torch.equal(arrived, expected)
        if served.get("shape", (-1,))[0] == 1:
            assert {request.rows for request in server.seen} == {1}


@pytest.mark.parametrize("takes_binary", [True, False])
@pytest.mark.parametrize("rows", [None, 3, 50])
def test_a_fixed_batch_is_filled_up_and_the_filling_is_neither_counted_nor_returned(
    rows: int | None, takes_binary: bool
) -> None:
    points = pictures(21, seed=5, dtype=torch.float32)
    with serving(NET, takes_binary=takes_binary, shape=(8, 3, 4, 4), outputs=(("scores", (8, 4)),)) as server:
        target = connect(server, rows=rows)
        for n in (1, 7, 8, 9, 21):
            delivery = target.deliver(points[:n])
            assert delivery.scores is not None
            torch.testing.assert_close(delivery.scores, as_served(points[:n]), rtol=0, atol=0)
            assert delivery.answered.tolist() == [True] * n
            assert int(delivery.sent.sum()) == n + (0 if takes_binary or n > 1 else 1)
        target.close()
        assert {request.rows for request in server.seen} == {8}
        assert target.rows_per_call == 8 * 4


def test_an_attack_on_a_fixed_batch_counts_its_own_rows_only_through_faults_too() -> None:
    with serving(NET, ["ok", "503", "ok", "drop"], shape=(8, 3, 4, 4)) as server:
        result = attack(connect(server, connections=2))
        assert same_outcome(result)
        again = [request for request in server.seen if request.fault in ("503", "drop")]
        assert len(again) == 2
        assert 2 <= int((result.sent - result.queries).sum()) <= 16
        assert {request.rows for request in server.seen} == {8}


def test_a_fixed_batch_is_taken_whole_by_the_rate() -> None:
    now, starts = [0.0], []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with serving(NET, shape=(8, 3, 4, 4), before_answer=lambda: starts.append(now[0])) as server:
        target = HttpTarget(server.url, HttpOptions(rate=0.1), clock=lambda: now[0], sleep=sleep)
        target(X)
        target(X)
        target.close()
    assert starts == pytest.approx([0, 80])


def test_a_fixed_batch_that_is_answered_short_is_an_error() -> None:
    with serving(NET, ["wrong-rows"], shape=(8, 3, 4, 4)) as server:
        delivery = connect(server).deliver(X)
        assert not delivery.answered.any()
        assert r"answered 8 rows with scores of shape (9, 4)" in str(delivery.cause)


def test_no_rows_ask_nobody_and_tell_the_classes() -> None:
    nothing = torch.empty((0, 3, 4, 4))
    with serving(NET) as server:
        assert connect(server)(nothing).shape == (0, 4)
        with pytest.raises(InputError, match="3×5×5"):
            connect(server)(torch.empty((0, 3, 5, 5)))
        assert server.seen == []
    with serving(NET, outputs=(("scores", (-1, -1)),)) as server:
        target = connect(server)
        with pytest.raises(TargetError, match="how many classes"):
            target(nothing)
        assert target.deliver(X).answered.all()
        assert target(nothing).shape == (0, 4)
        assert same_outcome(attack(connect(server))), "K is learned from the first answer"


def test_images_that_do_not_fit_are_an_error_before_any_query() -> None:
    with serving(NET) as server:
        with pytest.raises(InputError, match=r"the images are 3×5×5.*the model takes"):
            dowse.attack(server.url, torch.full((1, 3, 5, 5), 0.5), [0], method="rgf")
        delivery = connect(server).deliver(torch.full((2, 3, 5, 5), 0.5))
        assert isinstance(delivery, Delivery)
        assert (delivery.sent.tolist(), delivery.answered.tolist()) == ([0, 0], [False, False])
        assert server.seen == []


@pytest.mark.parametrize(
    ("served", "options", "words"),
    [
        ({}, {"input": "imgae"}, "did you mean 'image'"),
        ({}, {"output": "scoers"}, "did you mean 'scores'"),
        ({"metadata_status": 404}, {}, "404.*is the model's name right"),
        ({"metadata_status": 401}, {}, "token_env"),
    ],
)
def test_what_the_metadata_contradict_is_an_error_at_once(
    served: dict[str, Any], options: dict[str, Any], words: str
) -> None:
    with serving(NET, **served) as server, pytest.raises(InputError, match=words):
        connect(server, **options)


@pytest.mark.parametrize(
    ("status", "said", "input_helps"),
    [
        (404, "net answered with HTTP 404 Not Found", True),
        (501, "net answered with HTTP 501 Not Implemented", True),
        (401, "net answered with HTTP 401 Unauthorized", False),
        (503, "net gave no usable answer after 3 attempts, the last: HTTP 503 Service Unavailable", False),
    ],
)
def test_a_server_that_refuses_its_metadata_is_up_and_did_answer(status: int, said: str, input_helps: bool) -> None:
    with serving(NET, metadata_status=status) as server, pytest.raises(InputError, match=said) as caught:
        HttpTarget(server.url, sleep=lambda _: None)
    assert "server up" not in str(caught.value)
    assert ("#input=NAME" in str(caught.value)) is input_helps


@pytest.mark.parametrize(
    "url",
    [
        "http://host",
        "http://host/v2/models/",
        "http://host/v2/models/a/b",
        "http:///v2/models/a",
        "http://host/v1/models/a",
    ],
)
def test_a_url_that_names_no_model_is_shown_the_form(url: str) -> None:
    with pytest.raises(InputError, match=r"/v2/models/NAME"):
        HttpTarget(url)


def test_forms_of_a_url() -> None:
    with serving(NET) as server:
        for written in (server.url, f"{server.url}/", f"{server.url}/infer"):
            assert HttpTarget(written).url == server.url
        with pytest.raises(InputError, match="HttpOptions"):
            HttpTarget(f"{server.url}?rate=3")
