// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-DXJU6Izj.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "435e668134dac94f",
        plain: include_bytes!("assets/index-DXJU6Izj.js"),
        gzip: include_bytes!("assets/index-DXJU6Izj.js.gz"),
        brotli: include_bytes!("assets/index-DXJU6Izj.js.br"),
    },
    Asset {
        name: "assets/style-DR-KOfEl.css",
        content_type: "text/css; charset=utf-8",
        tag: "a8cef92a1365da57",
        plain: include_bytes!("assets/style-DR-KOfEl.css"),
        gzip: include_bytes!("assets/style-DR-KOfEl.css.gz"),
        brotli: include_bytes!("assets/style-DR-KOfEl.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "be5c826af8885a84",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
