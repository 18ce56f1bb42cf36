"""What recommendations are about. Apart from how they are found: pages and models need the names alone."""

from enum import StrEnum


class AdviceKind(StrEnum):
    QUOTA = "quota"
    WATERMARK = "watermark"
    POLICY = "policy"
    TIERS = "tiers"
    INSTANCE = "instance"
