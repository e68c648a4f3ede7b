// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-Csxp67Bx.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "5e99d5f548b7ea1b",
        plain: include_bytes!("assets/index-Csxp67Bx.js"),
        gzip: include_bytes!("assets/index-Csxp67Bx.js.gz"),
        brotli: include_bytes!("assets/index-Csxp67Bx.js.br"),
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
        tag: "7cafe8a8d0cb7564",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
