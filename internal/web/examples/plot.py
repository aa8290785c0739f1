import matplotlib.pyplot as plt
import numpy as np

t = np.linspace(0, 12, 400)
plt.plot(t, np.exp(-t / 5) * np.cos(3 * t))
plt.xlabel("seconds")
plt.title("A spring that comes to rest")
plt.show()
