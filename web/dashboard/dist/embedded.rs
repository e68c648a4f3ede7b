// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-CvQegD7a.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "a356182cebd4c5ca",
        plain: include_bytes!("assets/index-CvQegD7a.js"),
        gzip: include_bytes!("assets/index-CvQegD7a.js.gz"),
        brotli: include_bytes!("assets/index-CvQegD7a.js.br"),
    },
    Asset {
        name: "assets/style-eL2-OSrQ.css",
        content_type: "text/css; charset=utf-8",
        tag: "c4621f5756f269e3",
        plain: include_bytes!("assets/style-eL2-OSrQ.css"),
        gzip: include_bytes!("assets/style-eL2-OSrQ.css.gz"),
        brotli: include_bytes!("assets/style-eL2-OSrQ.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "a573c5f0b37fda3d",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
