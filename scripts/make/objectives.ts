/**
 * Writes docs/objectives.md from the doc comments of src/objectives, and its figures: `npm run
 * make -- objectives`.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { lineChart } from '../../packages/bench/src/lineChart.js'
import { objectiveDocs, objectivesPage, problemsOf } from '../kit/objectiveDocs.js'
import { objectiveCaptions, objectiveFigures } from '../kit/objectiveFigures.js'

const FIGURES = 'docs/images/objectives'

const docs = objectiveDocs()
const problems = problemsOf(docs)
if (problems.length > 0) throw new Error(problems.join('\n'))
writeFileSync('docs/objectives.md', objectivesPage(docs, objectiveCaptions))
await selectBackend()
mkdirSync(FIGURES, { recursive: true })
for (const [name, chart] of objectiveFigures()) writeFileSync(join(FIGURES, `${name}.svg`), lineChart(chart))
