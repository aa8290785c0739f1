// The grid's table: it draws the cells in sight of any number of rows and columns.
import "regular-table";
