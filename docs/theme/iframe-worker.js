// Browsers start no worker for a page of the file system: there the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = `<script>
        const load = (url) => new Promise((loaded) => {
          const script = document.createElement("script");
          Object.assign(script, { src: url, onload: loaded });
          document.head.append(script);
        });
        self.importScripts = (...urls) => urls.reduce((done, url) => done.then(() => load(url)), Promise.resolve());
        self.postMessage = (data) => parent.postMessage(data, "*");
      </script><script src="${url}"></script>`;
      this.ready = new Promise((loaded) => frame.addEventListener("load", loaded));
      this.frame = frame;
      addEventListener("message", ({ source, data }) => {
        if (source === frame.contentWindow) this.dispatchEvent(new MessageEvent("message", { data }));
      });
      document.body.append(frame);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
