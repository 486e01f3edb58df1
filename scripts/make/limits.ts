/** Writes docs/limits.md: `npm run make -- limits`. */
import { writeFileSync } from 'node:fs'
import { limitsPage } from '../kit/limitsPage.js'

writeFileSync('docs/limits.md', limitsPage())
