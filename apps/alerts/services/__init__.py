"""Changes of rules, alerts, silences and receivers."""

from apps.alerts.services.acknowledge import alert_acknowledge
from apps.alerts.services.deliver import deliveries_send
from apps.alerts.services.evaluate import alerts_evaluate
from apps.alerts.services.forget import history_forget
from apps.alerts.services.receivers import (
    ReceiverSettings,
    receiver_add,
    receiver_remove,
    receiver_test,
    receiver_update,
)
from apps.alerts.services.rules import RuleSettings, rule_add, rule_remove, rule_update, rules_seed
from apps.alerts.services.silences import silence_add, silence_end

__all__ = [
    "ReceiverSettings",
    "RuleSettings",
    "alert_acknowledge",
    "alerts_evaluate",
    "deliveries_send",
    "history_forget",
    "receiver_add",
    "receiver_remove",
    "receiver_test",
    "receiver_update",
    "rule_add",
    "rule_remove",
    "rule_update",
    "rules_seed",
    "silence_add",
    "silence_end",
]
