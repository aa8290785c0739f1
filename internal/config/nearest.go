package config

// nearest returns the key that a mistyped one most likely meant, or nothing
// when none is close.
func nearest(key string) string {
	words := make([]string, len(table))
	for i := range table {
		words[i] = table[i].Key
	}
	return Nearest(key, words)
}

// Nearest returns the word that a mistyped one most likely meant, or nothing
// when none is close.
func Nearest(typed string, words []string) string {
	best, least := "", len(typed)/3+2
	for _, word := range words {
		if d := distance(typed, word); d < least {
			best, least = word, d
		}
	}
	return best
}

// distance is the number of single-letter edits between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
