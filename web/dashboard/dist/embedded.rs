// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-B8ou8DDr.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "c90b20c085431ba4",
        plain: include_bytes!("assets/index-B8ou8DDr.js"),
        gzip: include_bytes!("assets/index-B8ou8DDr.js.gz"),
        brotli: include_bytes!("assets/index-B8ou8DDr.js.br"),
    },
    Asset {
        name: "assets/style-B8hfW7gP.css",
        content_type: "text/css; charset=utf-8",
        tag: "8d0ed159ab7802c4",
        plain: include_bytes!("assets/style-B8hfW7gP.css"),
        gzip: include_bytes!("assets/style-B8hfW7gP.css.gz"),
        brotli: include_bytes!("assets/style-B8hfW7gP.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "6d2198d3d5e3a299",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
