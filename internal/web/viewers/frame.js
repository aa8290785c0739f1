// A viewer in its frame: it is told once what to show, and tells how tall that is.
export function serve(show) {
  let begun = false;
  const tell = (message) => parent.postMessage(message, "*"); // nothing in it is secret: heights and problems
  addEventListener("message", async (e) => {
    if (e.source !== parent || begun || !e.data || !("content" in e.data)) return;
    begun = true;
    try {
      await show(e.data.content, e.data.dark === true);
    } catch (error) {
      tell({ problem: `This could not be shown: ${error?.message ?? error}` });
    }
    // Browsers observe nothing in a frame that is out of sight: it tells once by itself.
    const root = document.documentElement;
    const edges = () => {
      root.classList.toggle("more-left", scrollX > 1);
      root.classList.toggle("more-right", scrollX + innerWidth < root.scrollWidth - 1);
    };
    const measure = () => {
      tell({ height: Math.ceil(document.body.scrollHeight + innerHeight - root.clientHeight) }); // with the bar of what is wide
      edges();
    };
    addEventListener("scroll", edges);
    addEventListener("resize", edges);
    measure();
    new ResizeObserver(measure).observe(document.body);
  });
}
