"""Imports of the user's own code: corpora and models that a config names."""

import os
import pkgutil
from collections.abc import Callable

from mednli_jax.errors import PLUGINS, ConfigError, plugin_message


def import_object(name: str, field: str) -> Callable[..., object]:
    """Imports the object `package.module:name` of the user's own code, which a field of a config
    names.

    A config, even one from another person's run directory, may name any code; therefore only
    packages in $MEDNLI_JAX_PLUGINS are imported.
    """
    package = name.partition(":")[0].partition(".")[0]
    if package not in os.environ.get(PLUGINS, "").split(","):
        problem = f"'{name}' is code of the package '{package}', which is not allowed to run"
        raise ConfigError(problem, field=field, fix=f"if you trust it, export {PLUGINS}={package}")
    try:
        imported: Callable[..., object] = pkgutil.resolve_name(name)
        return imported
    except SyntaxError as error:
        raise ConfigError(
            f"{error.filename}:{error.lineno}: {error.msg}", fix="correct this module"
        ) from None
    except (ImportError, AttributeError, ValueError) as error:
        if plugin_message(error):  # an error of the module itself, which names its line
            raise
        fix = (
            "check the name after the colon" if isinstance(error, AttributeError) else "install it"
        )
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(f"'{name}' cannot be imported ({reason})", field=field, fix=fix) from None
