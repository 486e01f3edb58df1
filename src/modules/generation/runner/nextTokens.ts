/** Conversion of the graphs' scores to one record of plain numbers per row. */
import type { HostArray } from '@tandem-rl/base'
import type { Hosted } from '@tandem-rl/tfjs-onnxruntime'
import type { RowScores } from './graphs.js'
import type { NextToken } from './modelRunner.js'

/** Makes one record per row. The arrays are views of the graph's results. */
export const nextTokens = (scores: Hosted<RowScores>, inverseTemperature: Float32Array): readonly NextToken[] => {
  const numbers = ({ data }: HostArray): Float32Array => data as Float32Array // float32 by the graphs
  const [rows, vocabulary] = scores.logits.shape as [number, number] // [R, V]
  const blocks = scores.masses.shape[1]!
  const [logits, max, masses] = [numbers(scores.logits), numbers(scores.max), numbers(scores.masses)]
  const tempered = scores.temperedMasses === undefined ? masses : numbers(scores.temperedMasses)
  const argMax = scores.argMax.data
  const logSum = (from: Float32Array, row: number): number => {
    let sum = 0
    for (let i = row * blocks; i < (row + 1) * blocks; i++) sum += from[i]!
    return Math.log(sum)
  }
  return Array.from({ length: rows }, (_, row) => ({
    logits: logits.subarray(row * vocabulary, (row + 1) * vocabulary),
    argMax: argMax[row]!,
    logNormalizer: max[row]! + logSum(masses, row),
    temperedLogNormalizer: max[row]! * inverseTemperature[row]! + logSum(tempered, row),
    blockMasses: tempered.subarray(row * blocks, (row + 1) * blocks),
    blockSize: vocabulary / blocks,
  }))
}
