/** Compiles all packages: `npm run build`. Arguments go to the compiler, such as `-- --noCheck`. */
import { buildPackages } from './kit/build.js'

buildPackages('.', process.argv.slice(2))
