// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-Di-_5pn8.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "1966c3e95235a0b3",
        plain: include_bytes!("assets/index-Di-_5pn8.js"),
        gzip: include_bytes!("assets/index-Di-_5pn8.js.gz"),
        brotli: include_bytes!("assets/index-Di-_5pn8.js.br"),
    },
    Asset {
        name: "assets/style-DoKEcsFw.css",
        content_type: "text/css; charset=utf-8",
        tag: "8647acaf6e9f7c5d",
        plain: include_bytes!("assets/style-DoKEcsFw.css"),
        gzip: include_bytes!("assets/style-DoKEcsFw.css.gz"),
        brotli: include_bytes!("assets/style-DoKEcsFw.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "44468180b50aac93",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
