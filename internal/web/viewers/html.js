// HTML that a program made: its marks and styles, none of its scripts.
import DOMPurify from "dompurify";
import { serve } from "./frame.js";

serve((content) => {
  const body = DOMPurify.sanitize(content, {
    RETURN_DOM_FRAGMENT: true, FORCE_BODY: true, ADD_TAGS: ["style"],
    FORBID_TAGS: ["form", "input", "button", "textarea", "select", "area", "map"], FORBID_ATTR: ["href", "xlink:href", "srcset", "ping", "target"],
  });
  document.body.append(body);
  if (/<script/i.test(content)) {
    const note = document.createElement("p");
    note.textContent = "This output has scripts, which are left out.";
    note.style.opacity = ".7";
    document.body.append(note);
  }
});
