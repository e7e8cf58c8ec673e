// Parts of the page are drawn anew while one works with them: the focus goes back to the control that stands in the same
// place. Controls of rows have ids that hold the step ("place"); the same action of the next step will do.
(() => {
  const bare = (id) => id.replace(/"place":\d+/, "");
  let last = "";
  document.addEventListener("focusin", (event) => { last = event.target.id; });
  document.addEventListener("pointerdown", (event) => { if (!event.target.id) last = ""; });
  new MutationObserver(() => {
    if (!last || document.activeElement !== document.body) return;
    const same = document.getElementById(last)
      ?? [...document.querySelectorAll("button[id]")].find((other) => bare(other.id) === bare(last));
    same?.focus({ preventScroll: true });
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
