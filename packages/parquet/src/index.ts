/**
 * For those who read or write Parquet files that may be damaged or hostile, with hyparquet, and
 * without tensors.
 *
 * @module
 */
export { type ParquetFailure, parquetInfo, type ReadParquetOptions, readParquet } from './parquet.js'
export type { ParquetType } from './parquetTypes.js'
export { type EncodeParquetOptions, encodeParquet, type ParquetColumn } from './parquetWrite.js'
