// Package text knows how text lies in files: encodings, byte order marks, line
// endings, and how to look at bytes as UTF-8 and put them back unchanged.
//
// A file is never converted as a whole. [Split] cuts it into lines that keep
// their own ending; [View] shows one line as UTF-8, byte for byte where it is
// valid and as ISO 8859-1 where it is not, which maps every byte and loses
// none. UTF-16 is told by its mark alone, decoded by [DecodeUTF16], and only
// where encoding the result again gives the same bytes.
//
// [Scanner] learns the same of a file that arrives in parts, in constant
// memory.
package text
