// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-DoYGe8ET.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "d6babd5adec60dbb",
        plain: include_bytes!("assets/index-DoYGe8ET.js"),
        gzip: include_bytes!("assets/index-DoYGe8ET.js.gz"),
        brotli: include_bytes!("assets/index-DoYGe8ET.js.br"),
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
        tag: "5f56bc8d89d5b7a8",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
