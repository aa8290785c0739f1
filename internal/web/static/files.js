// The list of files: uploads, and the list anew when one has arrived.
import { Uploads } from "./uploads.js";

const box = document.getElementById("inputs");
if (box) {
  box.hidden = false;
  const uploads = new Uploads(box);
  const send = uploads.send.bind(uploads);
  uploads.send = (file) => {
    send(file);
    uploads.settled().then(() => {
      if (!box.querySelector(".failed") && !uploads.pending.size) location.reload();
    });
  };
}
