// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-D_37VHMo.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "94b24a148462e32c",
        plain: include_bytes!("assets/index-D_37VHMo.js"),
        gzip: include_bytes!("assets/index-D_37VHMo.js.gz"),
        brotli: include_bytes!("assets/index-D_37VHMo.js.br"),
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
        tag: "9c8cd75fa2808dac",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
