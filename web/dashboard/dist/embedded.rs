// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-DvvElplf.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "65ff9e16a758ad8f",
        plain: include_bytes!("assets/index-DvvElplf.js"),
        gzip: include_bytes!("assets/index-DvvElplf.js.gz"),
        brotli: include_bytes!("assets/index-DvvElplf.js.br"),
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
        tag: "5ac03984a6aefb55",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
