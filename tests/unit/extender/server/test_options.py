"""Which combinations of options the extender refuses: above all, a port from which anybody could bind pods."""

import pytest
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.extender.server.options import COMMON_OPTIONS, EXTENDER_OPTIONS, ExtenderOptions
from podwright.kube.options.options import Options
from podwright.kube.options.values import OptionsError

TLS = {"tls_cert_file": "crt", "tls_private_key_file": "key"}


@pytest.mark.parametrize(
    ("own", "common", "problem"),
    [
        pytest.param({}, {}, "", id="loopback is for this machine"),
        pytest.param({"address": ("::1", 1)}, {}, "", id="loopback by IPv6"),
        pytest.param({"address": ("localhost", 1)}, {}, "", id="loopback by name"),
        pytest.param({"address": ("", 1)}, {}, "can bind pods", id="all addresses"),
        pytest.param({"address": ("10.0.0.1", 1)}, TLS, "can bind pods", id="HTTPS alone says nothing of callers"),
        pytest.param({"address": ("", 1), "token_file": "t"}, {}, "", id="a token"),
        pytest.param({"address": ("", 1)}, {**TLS, "client_ca_file": "ca"}, "", id="client certificates"),
        pytest.param({"address": ("", 1), "allow_unauthenticated": True}, {}, "", id="said explicitly"),
        pytest.param({}, {"client_ca_file": "ca"}, "need HTTPS", id="client certificates without TLS"),
        pytest.param({"allowed_client_names": ("n",)}, TLS, "needs --client-ca-file", id="names without certificates"),
        pytest.param({"max_body_bytes": 1000}, {}, "at least 1Mi", id="no room for a body"),
    ],
)
def test_contradictions_are_refused(own, common, problem):
    if not problem:
        ExtenderOptions(common=Options(**common), **own)
        return
    with pytest.raises(OptionsError, match=problem):
        ExtenderOptions(common=Options(**common), **own)


def test_the_command_refuses_them_too():
    result = CliRunner().invoke(main, ["extender", "--address", "0.0.0.0:8888"])
    assert result.exit_code == 1
    assert "--allow-unauthenticated" in result.output


def test_the_help_promises_nothing_that_the_extender_does_not_serve():
    text = " ".join(CliRunner().invoke(main, ["extender", "--help"]).output.split())
    assert "page" not in text
    assert "/debug/explain" not in text
    assert "The certificate for --address and" in text
    assert "Default: at --address none" in text


def test_no_flag_has_two_meanings():
    flags = [option.flag for option in (*COMMON_OPTIONS, *EXTENDER_OPTIONS)]
    assert len(flags) == len(set(flags))
