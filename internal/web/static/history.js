// Two runs can be compared; a third mark takes the first away.
const form = document.getElementById("compare");
if (form) {
  const button = document.getElementById("compare-button") ?? {};
  const marked = [];
  const look = () => { button.disabled = marked.length !== 2; };
  for (const box of document.querySelectorAll("input[type=checkbox][form=compare]")) {
    if (box.checked) marked.push(box);
    box.addEventListener("change", () => {
      const at = marked.indexOf(box);
      if (at >= 0) marked.splice(at, 1);
      if (box.checked) marked.push(box);
      if (marked.length > 2) marked.shift().checked = false;
      look();
    });
  }
  look();
}
