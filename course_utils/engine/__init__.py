"""The engine of lesson 12: whole (``Engine``), and made of a learner's parts and the course's (``assemble``)."""

from course_utils.engine.parts import assemble as assemble
from course_utils.engine.whole import Engine as Engine
from course_utils.engine.whole import Node as Node
from course_utils.engine.whole import Tensor as Tensor
from course_utils.engine.whole import Way as Way
