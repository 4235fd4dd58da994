"""What a model would do on a Mac that is not here: missing kernels, devices and times, by tables alone.

In: a Keras model, the name of a kernel table, of a timing profile. Out: a `Forecast`. Never: a device, a
compiler, a run of the model.
"""

from autoplace.forecast.forecast import Forecast as Forecast
from autoplace.forecast.forecast import UnitForecast as UnitForecast
